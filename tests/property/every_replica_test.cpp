// SPDX-License-Identifier: Apache-2.0
// Tests replicas on several groups of random small clusters, in one place or two. The search finds the best of
// all deals of samples to them. For parts of the states it finds one as good as any on a grid. It states that
// nothing is faster.
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>

#include "mixed_clusters.h"
#include "random_mixed.h"
#include "search/uneven_replicas.h"

namespace espalier::property::every_replica_test {
namespace {

using namespace mixed;  // NOLINT: cases on unlike devices

/// Simulates one stage on every set of groups, under every strategy, with every deal of samples. Deals that only
/// reorder the replicas of a group are skipped.
class EveryDeal {
 public:
  explicit EveryDeal(const Case& c) : case_(c), costs_(c.model, c.cluster, c.problem.training, *c.problem.engine) {
    const std::size_t groups = c.cluster.groups.size();
    for (std::size_t set = 1; set < (std::size_t{1} << groups); ++set) {
      chosen_.clear();
      for (std::size_t g = 0; g < groups; ++g)
        if ((set >> g & 1) != 0) chosen_.push_back(g);
      if (chosen_.size() > 1) each_strategy();
    }
  }
  std::int64_t equal_parts_ns = INT64_MAX;  ///< the best with equal parts of the states
  std::int64_t other_parts_ns = INT64_MAX;  ///< the best with parts on a grid, where equal parts do not fit
  std::int64_t plans = 0;

 private:
  void each_strategy() {
    std::int64_t devices = 0, common = 0;
    for (const std::size_t g : chosen_) {
      const NodeGroup& group = case_.cluster.groups[g];
      devices += group.nodes * group.devices_per_node;
      common = std::gcd(common, group.devices_per_node);
    }
    for (const std::int32_t tp : {1, 2, 4}) {
      if (common % tp != 0) continue;
      for (const Recompute& how : recomputes_)
        for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
          Strategy s;
          s.tp = tp;
          s.dp = static_cast<std::int32_t>(devices / tp);
          s.zero = zero;
          s.shard = shards_optimizer(zero) ? s.dp : 1;
          s.overlap.grad_reduce = true;
          s.overlap.param_gather = shards_optimizer(zero);
          s.recompute = how;
          if (how.kind == RecomputeKind::full) s.recompute.layers = static_cast<std::int32_t>(case_.model.blocks());
          each_size(s);
        }
    }
  }

  void each_size(const Strategy& s) {
    const std::int64_t batch = case_.problem.training.global_batch;
    RuleFacts facts = rule_facts(case_.model, case_.cluster, case_.problem.training, 1);
    for (std::int64_t samples = s.dp; samples <= batch; samples += s.dp)
      if (batch % samples == 0 && search::stage_admitted(case_.problem, facts, s, samples)) each_deal(s, samples);
  }

  void each_deal(const Strategy& s, std::int64_t samples) {
    std::vector<std::size_t> group;  // by replica
    for (const std::size_t g : chosen_) {
      const NodeGroup& at = case_.cluster.groups[g];
      group.insert(group.end(), static_cast<std::size_t>(at.nodes * at.devices_per_node / s.tp), g);
    }
    std::vector<std::int64_t> dealt(group.size(), 1);
    const std::function<void(std::size_t, std::int64_t)> deal = [&](std::size_t r, std::int64_t left) {
      if (r == group.size()) {
        if (left == 0) judge(s, samples, group, dealt);
        return;
      }
      const std::int64_t most = r > 0 && group[r] == group[r - 1] ? dealt[r - 1] : left;
      for (dealt[r] = 1; dealt[r] <= std::min(most, left); ++dealt[r]) deal(r + 1, left - dealt[r]);
    };
    deal(0, samples);
  }

  void judge(const Strategy& s, std::int64_t samples, const std::vector<std::size_t>& group,
             const std::vector<std::int64_t>& dealt) {
    const auto equal = evaluate(s, samples, dealt, {});
    if (equal.fits) {
      equal_parts_ns = std::min(equal_parts_ns, equal.iteration_ns);
      return;
    }
    if (!s.shards_optimizer()) return;
    std::vector<std::size_t> kinds;  // by replica: its kind, given by group and samples
    std::vector<std::pair<std::size_t, std::int64_t>> known;
    for (std::size_t r = 0; r < group.size(); ++r) {
      const std::pair own{group[r], dealt[r]};
      const auto at = std::find(known.begin(), known.end(), own);
      kinds.push_back(static_cast<std::size_t>(at - known.begin()));
      if (at == known.end()) known.push_back(own);
    }
    if (known.size() > 3) return;
    std::vector<std::int64_t> weight(known.size(), 1);
    const std::function<void(std::size_t)> weigh = [&](std::size_t k) {
      if (k < weight.size()) {
        for (const std::int64_t w : {1, 2, 3, 5, 8}) {
          weight[k] = w;
          weigh(k + 1);
        }
        return;
      }
      std::vector<std::int64_t> states;
      for (const std::size_t of : kinds) states.push_back(weight[of]);
      const auto found = evaluate(s, samples, dealt, states);
      if (found.fits) other_parts_ns = std::min(other_parts_ns, found.iteration_ns);
    };
    weigh(0);
  }

  search::PlanEvaluation evaluate(const Strategy& s, std::int64_t samples, const std::vector<std::int64_t>& dealt,
                                  const std::vector<std::int64_t>& states) {
    Plan plan;
    plan.training = case_.problem.training;
    plan.engine = "generic";
    Pipeline& pipeline = plan.only_pipeline();
    pipeline.samples = plan.training.global_batch;
    pipeline.schedule.micro_batch = static_cast<std::int32_t>(samples / s.dp);
    pipeline.schedule.microbatches = static_cast<std::int32_t>(plan.training.global_batch / samples);
    Stage stage;
    for (const std::size_t g : chosen_) {
      const NodeGroup& group = case_.cluster.groups[g];
      stage.devices.push_back({case_.cluster.first_device(g), group.nodes * group.devices_per_node, 1});
    }
    stage.chunks = {{{{0, static_cast<std::int32_t>(case_.model.layers.size()) - 1, s}}}};
    stage.samples_per_replica = dealt;
    stage.state_shares = states;
    pipeline.stages = {stage};
    if (!plan_violations(case_.model, plan).empty()) return {INT64_MAX, false};
    ++plans;
    return *evaluator_.evaluate(case_.problem, costs_, plan);
  }

  const Case& case_;
  const cost::ClusterCosts costs_;
  planner::SimulatedEvaluator evaluator_{1};
  const std::vector<Recompute> recomputes_ = search::layer_recomputes(case_.problem);
  std::vector<std::size_t> chosen_;
};

/// Returns the cluster with little memory, `mib`, on its first kind of device, and much on the others.
std::string with_little_memory(std::int64_t mib, std::string text) {
  const std::string begin = "memory: ", unit = "GiB";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const std::size_t from = at + begin.size(), end = text.find(unit, from);
    text.replace(from, end + unit.size() - from, cat(mib, "MiB"));
    mib = 32768;
  }
  return text;
}

search::PhaseOutcome found_on(const Case& c) {
  planner::SimulatedEvaluator evaluator(1);
  return search::uneven_replicas(c.problem, evaluator, 0, {});
}

/// Returns a case in which the first kind of device has no room for an equal part, if there is one.
std::unique_ptr<Case> short_of_memory(Random& random, const std::string& text) {
  const int blocks = static_cast<int>(random.between(4, 8));
  const std::int64_t batch = random.of<std::int64_t>({4, 6, 8, 12}), zero = random.of<std::int64_t>({1, 3});
  std::unique_ptr<Case> c;
  for (std::int64_t mib = 2600; mib >= 600; mib -= 50) {
    c = std::make_unique<Case>(blocks, with_little_memory(mib, text), batch);
    c->problem.space.allow(Dimension::zero, {zero});
    c->problem.space.allow(Dimension::sp, {0});
    c->problem.space.allow(Dimension::recompute, {0});
    const search::PhaseOutcome found = found_on(*c);
    if (!found.best || !found.best->pipelines.front().stages.front().state_shares.empty()) break;
  }
  return c;
}

TEST(EveryReplica, TheSearchFindsTheBestDeal) {
  Random random(1616);
  const int clusters = cases(60, 500);
  int with_answer = 0, uneven = 0, shares = 0, sites = 0;
  long long simulated = 0, plans = 0;
  for (int n = 0; n < clusters; ++n) {
    const std::string text = random_cluster(random, false);
    std::unique_ptr<Case> made;
    if (random.one_in(3)) {
      made = short_of_memory(random, text);
    } else {
      made = std::make_unique<Case>(uneven_model(random), text, random.of<std::int64_t>({4, 6, 8, 12}));
      narrow(random, made->problem.space);
      if (n % 12 == 0) made->problem.space.allow(Dimension::recompute, {kModuleSets});
    }
    const Case& c = *made;
    const search::PhaseOutcome found = found_on(c);
    const EveryDeal all(c);
    plans += all.plans;
    simulated += found.simulations;
    const std::int64_t best = std::min(all.equal_parts_ns, all.other_parts_ns);
    if (best < INT64_MAX) {
      EXPECT_TRUE(found.best) << n << ": " << text;
    }
    if (!found.best) continue;
    ++with_answer;
    const Stage& stage = found.best->pipelines.front().stages.front();
    uneven += stage.samples_per_replica.empty() ? 0 : 1;
    shares += stage.state_shares.empty() ? 0 : 1;
    sites += text.find("links") != std::string::npos ? 1 : 0;
    EXPECT_EQ(found.lower_bound_ns, found.best->iteration_ns) << n << ": " << text;
    EXPECT_LE(found.best->iteration_ns, best) << n << ": " << text;
    if (stage.state_shares.empty()) {
      EXPECT_EQ(found.best->iteration_ns, all.equal_parts_ns) << n << ": " << text;
    }
  }
  std::printf(
      "%d clusters, %d with a plan that fits: %d with unequal samples, %d with unequal parts, %d over two sites; %lld of %lld "
      "plans simulated\n",
      clusters, with_answer, uneven, shares, sites, simulated, plans);
  EXPECT_GE(with_answer * 10, clusters * 5);
  EXPECT_GE(uneven * 5, with_answer);
  EXPECT_GE(shares * 20, with_answer);
}

// A replica that takes more samples of a micro-batch takes a more even load of packed lengths, by its own number.
TEST(EveryReplica, PackedSamplesAreAsUnevenAsEachReplicasOwn) {
  Random random(1617);
  const int clusters = cases(20, 200);
  int with_answer = 0, uneven = 0, closed = 0;
  for (int n = 0; n < clusters; ++n) {
    const std::string text = random_cluster(random, false);
    Case c(uneven_model(random), text, random.of<std::int64_t>({4, 6, 8, 12}));
    narrow(random, c.problem.space);
    const bool balanced = random.one_in(4);
    c.problem.training.sequence.main = 4096;
    c.problem.training.lengths = {{{64, 60}, {4096, 2}}, balanced ? Packing::balanced : Packing::packed};
    const search::PhaseOutcome found = found_on(c);
    const EveryDeal all(c);
    if (!found.best) continue;
    ++with_answer;
    const Stage& stage = found.best->pipelines.front().stages.front();
    uneven += stage.samples_per_replica.empty() ? 0 : 1;
    const std::int64_t best = std::min(all.equal_parts_ns, all.other_parts_ns);
    EXPECT_LE(found.lower_bound_ns, best) << n << ": " << text;
    if (found.lower_bound_ns != found.best->iteration_ns) continue;
    ++closed;
    EXPECT_FALSE(balanced);
    EXPECT_LE(found.best->iteration_ns, best) << n << ": " << text;
  }
  std::printf("%d clusters, %d with a plan that fits: %d with unequal samples, %d proven best\n", clusters, with_answer, uneven,
              closed);
  EXPECT_GE(with_answer * 10, clusters * 5);
  EXPECT_GE(uneven * 5, with_answer);
  EXPECT_GE(closed * 10, with_answer * 5);
}

}  // namespace
}  // namespace espalier::property::every_replica_test
