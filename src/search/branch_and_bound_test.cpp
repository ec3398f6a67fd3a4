// SPDX-License-Identifier: Apache-2.0
// Tests the search with stand-ins for the simulator: its queries, their order, and its use of the results. The tests
// in tests/property check that it finds the fastest plan under the real simulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cost/bound.h"
#include "plan/engine.h"
#include "search/cost_book.h"
#include "search/search.h"

namespace espalier::search {
namespace {

/// Returns the lower bounds of time and memory, like a simulator in which nothing ever waits.
class Ideal : public Evaluator {
 public:
  std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int) override {
    std::int64_t most = 0;
    for (std::int32_t i = 0; i < structure.schedule.stages; ++i) {
      const std::int64_t activations = cost::activations_lower_bound_bytes(costs, structure, i);
      most = std::max(most, cost::peak_bytes(costs.stages[StageId(static_cast<std::int32_t>(i))].memory.total(), activations,
                                             costs.allocator_reserve));
    }
    return most;
  }
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan&, int) override {
    return cost::iteration_lower_bound_ns(costs, structure);
  }
};

/// Returns the same time for all configurations.
class Indifferent : public Ideal {
 public:
  std::int64_t iteration_ns(const ProgramStructure&, const cost::Costs&, const CandidatePlan&, int) override {
    return 1'000'000'000'000;
  }
};

struct Job {
  Model model;
  Cluster cluster;
  Training training;
  SearchSpace space;
  [[nodiscard]] Problem problem() const { return {&model, &cluster, training, find_engine("generic"), space}; }
};

Job job(std::int64_t devices, std::int64_t blocks, std::int64_t batch) {
  DecoderShape shape;
  shape.layers = blocks;
  shape.hidden = 256;
  shape.heads = shape.kv_heads = 8;
  shape.ffn = 1024;
  shape.vocabulary = 1000;
  shape.max_positions = 256;
  Job out{*make_decoder(shape, "toy"), {}, {}, {}};
  NodeGroup group;
  group.devices_per_node = devices;
  group.device = *find_device("h100-sxm-80gb");
  FabricLevel node;
  node.name = "node";
  node.span = devices;
  node.bandwidth = node.bandwidth_alone = GBps(100);
  group.intra = {node};
  out.cluster.groups = {group};
  out.training.sequence.main = 256;
  out.training.global_batch = batch;
  return out;
}

double removed(const Outcome& o) {
  double all = 0;
  for (const auto& [name, n] : o.pruning.counters()) all += n;
  return all;
}

std::string text(const std::optional<Candidate>& c) {
  return c ? canonical_text(c->configuration.strategy, c->configuration.schedule) + " " + std::to_string(c->iteration_ns)
           : "none";
}

// One device, one sample, two blocks: recomputation none, selective, or one or two blocks in full. Everything fits,
// and none is the fastest.
TEST(BranchAndBound, SmallestExample) {
  const Job one = job(1, 2, 1);
  Ideal evaluator;
  const Outcome found = branch_and_bound(one.problem(), evaluator, {});
  EXPECT_EQ(found.space_size, 4);
  ASSERT_TRUE(found.best.has_value());
  EXPECT_EQ(found.best->configuration, Configuration{});
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.lower_bound_ns, found.best->iteration_ns);
  EXPECT_EQ(removed(found) + static_cast<double>(found.simulations), 4);
}

TEST(BranchAndBound, EqualsExhaustive) {
  const Job eight = job(8, 4, 8);
  Ideal evaluator;
  const Outcome all = exhaustive(eight.problem(), evaluator, {}), clever = branch_and_bound(eight.problem(), evaluator, {});
  EXPECT_EQ(text(clever.best), text(all.best));
  EXPECT_EQ(clever.space_size, all.space_size);
  EXPECT_LT(clever.simulations, all.simulations / 100);  // pruning must save most simulations
}

// Among equally fast configurations the first by canonical text wins, although the search visits them in another
// order.
TEST(BranchAndBound, TiesGoToTheFirstByCanonicalText) {
  Job four = job(4, 2, 4);
  four.space.limit(Dimension::micro_batch, 2);
  Indifferent evaluator;
  const Space space(four.model, four.cluster, four.training, *find_engine("generic"), four.space);
  std::string first = "zzz";
  space.for_each([&](const Configuration& c) { first = std::min(first, canonical_text(c.strategy, c.schedule)); });
  const Outcome found = branch_and_bound(four.problem(), evaluator, {});
  ASSERT_TRUE(found.best.has_value());
  EXPECT_EQ(canonical_text(found.best->configuration.strategy, found.best->configuration.schedule), first);
  EXPECT_EQ(found.simulations, found.space_size);  // nothing that could tie may be dropped
  EXPECT_TRUE(std::is_sorted(found.simulated.begin(), found.simulated.end(), [](const Candidate& a, const Candidate& b) {
    return canonical_less(a.configuration, b.configuration);
  }));
}

TEST(BranchAndBound, NothingFits) {
  Job four = job(4, 2, 4);
  four.cluster.memory_limit = Bytes(1000);
  Ideal evaluator;
  for (const Outcome& found : {branch_and_bound(four.problem(), evaluator, {}), exhaustive(four.problem(), evaluator, {})}) {
    EXPECT_FALSE(found.best.has_value());
    EXPECT_EQ(found.simulations, 0);
    EXPECT_EQ(removed(found), found.space_size);
    EXPECT_EQ(found.lower_bound_ns, 0);
    EXPECT_TRUE(found.complete);
  }
}

TEST(BranchAndBound, EmptySpace) {
  Job four = job(4, 2, 4);
  four.space.allow(Dimension::tp, {3});
  Ideal evaluator;
  const Outcome found = branch_and_bound(four.problem(), evaluator, {});
  EXPECT_EQ(found.space_size, 0);
  EXPECT_FALSE(found.best.has_value());
  EXPECT_TRUE(found.complete);
}

TEST(BranchAndBound, ByDimensionAddsUp) {
  const Job eight = job(8, 4, 8);
  Ideal evaluator;
  const Outcome found = branch_and_bound(eight.problem(), evaluator, {});
  std::map<std::int64_t, double> pp;
  const Space space(eight.model, eight.cluster, eight.training, *find_engine("generic"), eight.space);
  space.for_each([&](const Configuration& c) { ++pp[c.schedule.stages]; });
  EXPECT_EQ(found.by_dimension.at("pp"), pp);
}

TEST(BranchAndBound, ALimitEndsTheSearchHonestly) {
  Job four = job(4, 2, 4);
  four.space.limit(Dimension::micro_batch, 2);
  Indifferent evaluator;
  Options options;
  options.node_limit = 100;
  const Outcome part = branch_and_bound(four.problem(), evaluator, options);
  EXPECT_FALSE(part.complete);
  EXPECT_FALSE(part.interrupted);
  EXPECT_GE(part.simulations, 100);
  EXPECT_LT(static_cast<double>(part.simulations), part.space_size);
  ASSERT_TRUE(part.best.has_value());
  EXPECT_LT(part.lower_bound_ns, part.best->iteration_ns);
}

TEST(BranchAndBound, InterruptionAndProgress) {
  Job four = job(4, 2, 4);
  Indifferent evaluator;
  Options options;
  int lines = 0;
  options.progress = [&](const Progress& standing) {
    ++lines;
    EXPECT_EQ(standing.phase, "uniform");
  };
  options.interrupted = [] { return true; };
  const Outcome part = branch_and_bound(four.problem(), evaluator, options);
  EXPECT_TRUE(part.interrupted);
  EXPECT_FALSE(part.complete);
  EXPECT_GT(lines, 0);
  EXPECT_EQ(part.lower_bound_ns, 0) << "nothing is known of what was not met";
}

// Returns a little more than the bound, differently for each configuration; the answer is its minimum.
class Uneven : public Ideal {
 public:
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan& plan,
                            int worker) override {
    const std::int64_t bound = Ideal::iteration_ns(structure, costs, plan, worker);
    return bound + bound * 7919 % 1013 * 100;
  }
};

TEST(BranchAndBound, BelievesTheEvaluatorNotTheBound) {
  for (const std::int64_t devices : {2, 3, 4, 6}) {
    Job some = job(devices, 3, 12);
    some.space.limit(Dimension::micro_batch, 4);
    Uneven evaluator;
    EXPECT_EQ(text(branch_and_bound(some.problem(), evaluator, {}).best), text(exhaustive(some.problem(), evaluator, {}).best));
  }
}

}  // namespace
}  // namespace espalier::search
