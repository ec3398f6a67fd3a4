// SPDX-License-Identifier: Apache-2.0
// Tests what a search carries over a change of its cluster (search/search_record.h). Bounds keep the part given by
// cost/network_change.h. A search that starts from a record gives the answer of a search without one. The changes are
// slower or faster links, level by level, less memory, and a change of a change.
#include <gtest/gtest.h>

#include "cost/network_change.h"
#include "random_problem.h"

namespace espalier::property::carried_test {
namespace {

const int kProblems = cases(150, 2000);

/// Returns a factor for some quantity of a link, a little or much larger or smaller.
double scale(Random& random) {
  return random.one_in(3)   ? 1.0
         : random.one_in(2) ? 0.9 + 0.01 * static_cast<double>(random.below(20))
                            : magnitude(random, -1, 1);
}

void change(Random& random, FabricLevel& level) {
  level.bandwidth = level.bandwidth_alone = BytesPerSecond(level.bandwidth.count() * scale(random));
  level.per_peer = BytesPerSecond(level.per_peer.count() * scale(random));
  level.latency = Seconds(level.latency.count() * scale(random));
  level.start = Seconds(level.start.count() * scale(random));
}

/// Keeps the nodes but changes links, and in half of the cases reduces the memory.
RandomProblem changed(Random& random, const RandomProblem& before) {
  RandomProblem p = before;
  if (!random.one_in(4)) {
    for (FabricLevel& level : p.cluster.groups.front().intra) change(random, level);
    for (FabricLevel& level : p.cluster.inter) change(random, level);
  }
  if (random.one_in(2)) {
    const auto usable = static_cast<double>(p.cluster.usable_memory().count());
    p.cluster.memory_limit = Bytes(static_cast<std::int64_t>(usable * (0.5 + 0.005 * static_cast<double>(random.below(100)))));
  }
  return p;
}

search::Outcome searched(const RandomProblem& p, const search::Carried* carried, double within) {
  planner::SimulatedEvaluator evaluator(1);
  search::Options options;
  options.carried = carried;
  options.keep_record = true;
  options.keep_within = within;
  return search::branch_and_bound(p.view(), evaluator, options);
}

double removed(const search::Outcome& o) {
  double all = 0;
  for (const auto& [name, n] : o.pruning.counters()) all += n;
  return all;
}

void expect_equal(const search::Outcome& warm, const search::Outcome& cold, const std::string& where) {
  ASSERT_EQ(text_of(warm.best), text_of(cold.best)) << where;
  ASSERT_EQ(warm.complete, cold.complete) << where;
  ASSERT_EQ(warm.lower_bound_ns, cold.lower_bound_ns) << where;
  ASSERT_EQ(warm.space_size, cold.space_size) << where;
  ASSERT_EQ(warm.by_dimension, cold.by_dimension) << where;
  ASSERT_EQ(static_cast<double>(warm.simulations) + removed(warm), warm.space_size) << where;
}

TEST(Carried, WarmEqualsCold) {
  Random random(31);
  std::int64_t cold_nodes = 0, warm_nodes = 0;
  int found = 0, scarcer = 0;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem first = random_problem(i);
    const double within = random.one_in(2) ? 0.0 : 0.01;
    std::optional<search::SearchRecord> record = searched(first, nullptr, within).record;
    RandomProblem before = first;
    for (int step = 0; step < 2 && record; ++step) {
      const RandomProblem now = changed(random, before);
      const cost::NetworkChange change = cost::network_change(before.cluster, now.cluster);
      ASSERT_GT(change.ratio, 0) << describe(now);
      const search::Carried carried{&*record, change};
      const search::Outcome warm = searched(now, &carried, within), cold = searched(now, nullptr, within);
      ASSERT_NO_FATAL_FAILURE(expect_equal(warm, cold, describe(now)));
      cold_nodes += cold.bounded;
      warm_nodes += warm.bounded;
      found += cold.best.has_value();
      scarcer += now.cluster.memory_limit != before.cluster.memory_limit;
      ASSERT_EQ(warm.record.has_value(), cold.record.has_value());
      record = warm.record;  // a record of a record works as well
      before = now;
    }
  }
  EXPECT_GT(found, cases(100, 1000));
  EXPECT_GT(scarcer, cases(50, 500));
  EXPECT_LT(warm_nodes, cold_nodes * 9 / 10);
}

TEST(Carried, ASearchOfTheSameClusterLooksAtLittle) {
  std::int64_t cold_nodes = 0, warm_nodes = 0;
  for (int i = 0; i < cases(60, 500); ++i) {
    const RandomProblem p = random_problem(i);
    const search::Outcome cold = searched(p, nullptr, 0);
    if (!cold.record) continue;
    const search::Carried carried{&*cold.record, cost::network_change(p.cluster, p.cluster)};
    ASSERT_TRUE(carried.change.equal);
    const search::Outcome warm = searched(p, &carried, 0);
    ASSERT_NO_FATAL_FAILURE(expect_equal(warm, cold, describe(p)));
    cold_nodes += cold.bounded;
    warm_nodes += warm.bounded;
  }
  EXPECT_LT(warm_nodes, cold_nodes / 2);
}

/// Tests a configuration of each layer choice, and its bounds at every depth of the tree.
TEST(Carried, BoundsKeepTheirPart) {
  Random random(32);
  std::int64_t compared = 0, kept_something = 0;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem before = random_problem(i);
    RandomProblem after = changed(random, before);
    const cost::NetworkChange change = cost::network_change(before.cluster, after.cluster);
    search::Space space(before.model, before.cluster, before.training, *before.engine, before.space);
    search::CostBook then(before.view()), now(after.view());
    search::Workspace a, b;
    const auto layers = static_cast<std::int64_t>(before.model.layers.size());
    std::vector<Configuration> choices;
    space.layer_group([&](const Configuration& c) {
      if (space.leaves(c) > 0) choices.push_back(c);
    });
    for (const Configuration& choice : choices) {
      bool legal = false;
      const Configuration c = random_below(space, choice, random, legal);
      if (!legal) continue;
      then.prepare(c.schedule.stages);
      now.prepare(c.schedule.stages);
      price_layers(then, c, a);
      price_layers(now, c, b);
      const auto expect_kept = [&](std::int64_t old_bound, std::int64_t new_bound, const char* which) {
        const std::int64_t left = change.bound_after(old_bound, c.schedule.microbatches, layers);
        ASSERT_LE(left, new_bound) << which << ", ratio " << change.ratio << " of " << old_bound << ", "
                                   << canonical_text(c.strategy, c.schedule) << ", " << describe(before);
        ++compared;
        kept_something += left > 0;
      };
      expect_kept(layer_group_bound_ns(then, c, a), layer_group_bound_ns(now, c, b), "layer group");
      expect_kept(schedule_group_bound_ns(then, c, a), schedule_group_bound_ns(now, c, b), "schedule group");
      expect_kept(shard_group_bound_ns(then, c, a), shard_group_bound_ns(now, c, b), "shard group");
      expect_kept(configuration_bound_ns(then, c, a), configuration_bound_ns(now, c, b), "configuration");
    }
  }
  EXPECT_GT(compared, cases(10'000, 100'000));
  EXPECT_GT(kept_something, compared / 4);
}

}  // namespace
}  // namespace espalier::property::carried_test
