// SPDX-License-Identifier: Apache-2.0
#include "search/stage_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cost/price.h"
#include "plan/stage_schedules.h"
#include "search/device_groups.h"
#include "search/test_fixture.h"

namespace espalier::search::stage_options_test {
namespace {

using test::Fixture;

constexpr const char* kMixed =
    "{groups: [{nodes: 1, devices_per_node: 4, device: a100-sxm-40gb}, {nodes: 2, devices_per_node: 8, device: v100-sxm-32gb}],"
    " inter_group: {bandwidth: 100Gb/s, latency: 5us}}";

/// A group has at most 32 units. 4 devices form units of 1, and so do 16. 6 nodes of 8 are 48 devices, so units are
/// pairs. 48 nodes of 8 form whole nodes, as no smaller unit gives few enough. A node of 3 has no power of two but 1.
TEST(StageOptions, UnitsAreAsSmallAsLeavesFewEnough) {
  const auto units = [](const char* text) { return unit_devices(load_cluster(text, "test").value()); };
  EXPECT_EQ(units(kMixed), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(units("{nodes: 6, devices_per_node: 8, device: v100-sxm-32gb}"), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(units("{nodes: 16, devices_per_node: 8, device: v100-sxm-32gb}"), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(units("{nodes: 48, devices_per_node: 8, device: v100-sxm-32gb}"), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(units("{nodes: 4, devices_per_node: 3, device: v100-sxm-32gb}"), (std::vector<std::int64_t>{1}));
}

/// With 8 heads on a node of 4, the rules of the model allow tp 1, 2, 4 and 8. 16 samples form micro-batches of 8 or
/// 16 for 8 replicas; ZeRO shards over them.
TEST(StageOptions, RulesEngineAndJobAdmitAStage) {
  Fixture f(kMixed);
  RuleFacts facts = rule_facts(f.model, f.cluster, f.problem.training, 1);
  const auto stage = [](std::int32_t tp, std::int32_t dp, ZeroStage zero = ZeroStage::none) {
    Strategy s;
    s.tp = tp;
    s.dp = dp;
    s.zero = zero;
    s.shard = shards_optimizer(zero) ? dp : 1;
    return s;
  };
  EXPECT_TRUE(stage_admitted(f.problem, facts, stage(2, 8), 16));
  EXPECT_TRUE(stage_admitted(f.problem, facts, stage(2, 8), 8));
  EXPECT_FALSE(stage_admitted(f.problem, facts, stage(2, 8), 4)) << "half a sample a replica";
  EXPECT_FALSE(stage_admitted(f.problem, facts, stage(3, 8), 16)) << "8 heads on 3 ranks";
  EXPECT_FALSE(stage_admitted(f.problem, facts, stage(16, 1), 16)) << "8 heads on 16 ranks";
  EXPECT_TRUE(stage_admitted(f.problem, facts, stage(2, 1), 1));
  EXPECT_TRUE(stage_admitted(f.problem, facts, stage(1, 4, ZeroStage::optimizer), 16));
  // The job pins at most two ranks per model replica, micro-batches of one sample, and no ZeRO.
  f.problem.space.limit(Dimension::tp, 2);
  EXPECT_FALSE(stage_admitted(f.problem, facts, stage(4, 4), 16));
  f.problem.space.allow(Dimension::micro_batch, {1});
  EXPECT_TRUE(stage_admitted(f.problem, facts, stage(2, 8), 8));
  EXPECT_FALSE(stage_admitted(f.problem, facts, stage(2, 8), 16)) << "two samples a replica";
  f.problem.space.allow(Dimension::zero, {0});
  EXPECT_FALSE(stage_admitted(f.problem, facts, stage(1, 4, ZeroStage::optimizer), 4));
}

/// Every option is a possible stage: whole units, tp inside a node, replicas that divide the micro-batch, ZeRO over
/// all of them.
TEST(StageOptions, EveryOptionIsAStage) {
  const Fixture f(kMixed);
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  ASSERT_FALSE(all.options.empty());
  ASSERT_EQ(all.options.size(), all.choices.size());
  const std::size_t kinds = f.model.kinds.size();
  for (std::size_t i = 0; i < all.options.size(); ++i) {
    const solve::StageOption& o = all.options[i];
    const StageChoice& c = all.choices[i];
    const NodeGroup& group = f.cluster.groups[c.group];
    EXPECT_EQ(o.kind, static_cast<std::int32_t>(c.group));
    EXPECT_EQ(o.units, c.strategy.tp * c.strategy.dp);
    EXPECT_LE(c.strategy.tp, group.devices_per_node);
    EXPECT_EQ(4 % c.strategy.dp, 0);
    EXPECT_EQ(c.strategy.shard, c.strategy.shards_optimizer() ? c.strategy.dp : 1);
    EXPECT_TRUE(o.units <= group.devices_per_node || o.units % group.devices_per_node == 0);
    for (const auto* column : {&o.forward_ns, &o.backward_ns, &o.static_bytes, &o.saved_bytes, &o.end_ns}) {
      ASSERT_EQ(column->size(), kinds);
      EXPECT_GE(*std::min_element(column->begin(), column->end()), 0);
    }
  }
}

/// The job's pins apply to every stage.
TEST(StageOptions, TheJobsPinsHold) {
  Fixture f(kMixed);
  f.problem.space.allow(Dimension::tp, {2});
  f.problem.space.allow(Dimension::zero, {1});
  f.problem.space.forbid(Dimension::recompute, {2});
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  ASSERT_FALSE(all.choices.empty());
  for (const StageChoice& c : all.choices) {
    EXPECT_EQ(c.strategy.tp, 2);
    EXPECT_EQ(c.strategy.zero, ZeroStage::optimizer);
    EXPECT_NE(c.strategy.recompute.kind, RecomputeKind::full);
  }
}

/// Returns the degrees of context parallelism that the options of a cluster have.
std::set<std::int32_t> splits_of(const Fixture& f) {
  std::set<std::int32_t> out;
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  for (std::size_t i = 0; i < all.options.size(); ++i) {
    const Strategy& s = all.choices[i].strategy;
    out.insert(s.cp);
    EXPECT_EQ(all.options[i].units, s.tp * s.cp * s.dp);
    EXPECT_EQ(s.shard, s.shards_optimizer() ? s.cp * s.dp : 1);
  }
  return out;
}

/// Sequences of 512 are split where the job names cp, those of 16,384 in any case. 16 V100 allow 16 parts; all-to-all
/// allows 8, because a rank has at most 8 heads to distribute. The job's cp_kind applies to each stage.
TEST(StageOptions, LongSequencesMayBeSplit) {
  Fixture f(kMixed);
  EXPECT_EQ(splits_of(f), (std::set<std::int32_t>{1}));
  f.problem.space.allow(Dimension::cp, {1, 2});
  EXPECT_EQ(splits_of(f), (std::set<std::int32_t>{1, 2}));
  f.problem.space.allow(Dimension::cp, {2});
  EXPECT_EQ(splits_of(f), (std::set<std::int32_t>{2}));
  f.problem.space.allowed.clear();
  f.problem.training.sequence.main = kLongSequence;
  EXPECT_EQ(splits_of(f), (std::set<std::int32_t>{1, 2, 4, 8, 16}));
  f.problem.space.limit(Dimension::cp, 1);
  EXPECT_EQ(splits_of(f), (std::set<std::int32_t>{1}));
  f.problem.space.limits.clear();
  f.problem.space.allow(Dimension::cp_kind, {ContextParallelKind::all_to_all});
  EXPECT_EQ(splits_of(f), (std::set<std::int32_t>{2, 4, 8}));  // cp 1 is written as a ring
}

/// Two stages have two devices each. Under ZB-H1, the immediate scatter of ZeRO 2 cannot wait; under 1F1B it may.
TEST(StageOptions, APipelineIsAdmittedUnderItsSchedule) {
  const Fixture f(kMixed);
  const auto admitted = [&](ScheduleKind kind, ZeroStage zero) {
    Pipeline pipeline;
    pipeline.schedule.kind = kind;
    pipeline.schedule.stages = 2;
    pipeline.stages.resize(2);
    for (Stage& stage : pipeline.stages) {
      Strategy s;
      s.dp = 2;
      s.zero = zero;
      s.shard = shards_optimizer(zero) ? 2 : 1;
      s.recompute = {RecomputeKind::full, 3};
      stage.chunks.resize(1);
      stage.chunks.front().ranges = {{0, 3, s}};
    }
    return pipeline_admitted(f.problem, pipeline, 4);
  };
  EXPECT_TRUE(admitted(ScheduleKind::one_f_one_b, ZeroStage::gradients));
  EXPECT_TRUE(admitted(ScheduleKind::zb_h1, ZeroStage::optimizer));
  EXPECT_FALSE(admitted(ScheduleKind::zb_h1, ZeroStage::gradients));
}

/// ZB-H1 is searched only for jobs that name schedules including it.
TEST(StageOptions, ZeroBubbleIsNamed) {
  SearchSpace space;
  const auto one = static_cast<std::int64_t>(ScheduleKind::one_f_one_b), late = static_cast<std::int64_t>(ScheduleKind::zb_h1);
  EXPECT_FALSE(admits_zero_bubble(space));
  space.allow(Dimension::schedule, {one});
  EXPECT_FALSE(admits_zero_bubble(space));
  space.allow(Dimension::schedule, {one, late});
  EXPECT_TRUE(admits_zero_bubble(space));
  space.allowed.clear();
  space.forbid(Dimension::schedule, {late});
  EXPECT_FALSE(admits_zero_bubble(space));
}

/// For a chain of two stages, one per kind, the option figures of its layers never exceed the prices of the whole
/// plan.
TEST(StageOptions, FiguresAreLowerBoundsOfPrices) {
  const Fixture f(kMixed);
  const cost::ClusterCosts costs = f.costs();
  const StageOptions all = stage_options(f.problem, costs, 4);
  std::size_t seen = 0;
  for (std::size_t a = 0; a < all.options.size(); a += 3)
    for (std::size_t b = 1; b < all.options.size(); b += 5) {
      if (all.options[a].kind == all.options[b].kind) continue;
      const std::vector<solve::GroupedStage> chain = {{static_cast<std::int32_t>(a), 0, 3}, {static_cast<std::int32_t>(b), 4, 7}};
      Plan plan;
      plan.training = f.problem.training;
      plan.pipelines = {pipeline_of(f.problem, all, chain, 4)};
      ASSERT_TRUE(validate(plan).ok()) << validate(plan).error().where << ": " << validate(plan).error().found;
      Program program;
      const cost::Costs priced = cost::price(costs, plan, program);
      for (std::int32_t i = 0; i < 2; ++i) {
        const solve::StageOption& o = all.options[i == 0 ? a : b];
        std::int64_t forward = o.pass_forward_ns, backward = o.pass_backward_ns, bytes = o.fixed_bytes, saved = 0;
        for (std::int32_t layer = chain[static_cast<std::size_t>(i)].first; layer <= chain[static_cast<std::size_t>(i)].last;
             ++layer) {
          const auto kind = static_cast<std::size_t>(f.model.layers[static_cast<std::size_t>(layer)]);
          forward += o.forward_ns[kind];
          backward += o.backward_ns[kind];
          bytes += o.static_bytes[kind];
          saved += o.saved_bytes[kind];
        }
        const ProgramStructure& s = program.structure();
        EXPECT_LE(forward, priced.works[s.forward(ChunkId(i))].time.duration_ns());
        EXPECT_LE(backward, priced.works[s.backward(ChunkId(i))].time.duration_ns());
        EXPECT_LE(bytes, priced.stages[StageId(i)].memory.total());
        EXPECT_LE(saved, priced.saved_bytes(s, ChunkId(i)));
      }
      const std::int64_t sent = priced.transfers[program.structure().transfer(ChunkId(1), false)].count();
      EXPECT_LE(all.send_ns[static_cast<std::size_t>(all.options[a].port)][static_cast<std::size_t>(all.options[b].port)], sent);
      ++seen;
    }
  EXPECT_GT(seen, 20U);
}

/// The larger stages of a group come first on its devices, so that stages of 4 and 8 on two nodes of 8 do not
/// straddle.
TEST(DeviceGroups, StagesLieInsideNodes) {
  const Fixture f(
      "{groups: [{nodes: 2, devices_per_node: 8, device: v100-sxm-32gb}, {nodes: 1, devices_per_node: 4, device: a100-sxm-40gb}],"
      " inter_group: {bandwidth: 100Gb/s, latency: 5us}}");
  StageOptions options;
  const auto add = [&](std::size_t group, std::int32_t tp, std::int32_t dp) {
    StageChoice choice;
    choice.group = group;
    choice.strategy.tp = tp;
    choice.strategy.dp = dp;
    options.choices.push_back(choice);
    options.options.emplace_back();
  };
  add(0, 4, 1);
  add(0, 4, 2);
  add(1, 2, 2);
  const Pipeline p = pipeline_of(f.problem, options, {{0, 0, 1}, {1, 2, 3}, {2, 4, 5}, {0, 6, 7}}, 4);
  ASSERT_EQ(p.stages.size(), 4U);
  EXPECT_EQ(p.stages[1].devices, (std::vector<DeviceRange>{{0, 8, 1}}));
  EXPECT_EQ(p.stages[0].devices, (std::vector<DeviceRange>{{8, 4, 1}}));
  EXPECT_EQ(p.stages[3].devices, (std::vector<DeviceRange>{{12, 4, 1}}));
  EXPECT_EQ(p.stages[2].devices, (std::vector<DeviceRange>{{16, 4, 1}}));
  EXPECT_EQ(p.schedule.microbatches, 4);
  EXPECT_EQ(p.schedule.micro_batch, 4);  // dp 1 in the first stage
  EXPECT_EQ(p.samples, 16);
}

/// Returns the bound of the first stage as the time, and reports every third plan as too large.
class Fake : public Evaluator {
 public:
  std::int64_t peak_bytes(const ProgramStructure&, const cost::Costs&, int) override { return 0; }
  std::int64_t iteration_ns(const ProgramStructure&, const cost::Costs&, const CandidatePlan&, int) override { return 0; }
  std::optional<PlanEvaluation> evaluate(const Problem&, const cost::ClusterCosts& costs, const Plan& plan) override {
    Program program;
    const cost::Costs priced = cost::price(costs, plan, program);
    std::int64_t all = 0;  // sequential execution, which no plan exceeds
    for (const Instruction& i : program.instructions)
      if (i.stream == Stream::compute) all += priced.works[i.work()].time.duration_ns();
    for (const Nanoseconds t : priced.collectives) all += t.count();
    for (const Nanoseconds t : priced.transfers) all += t.count() * plan.only_pipeline().schedule.microbatches;
    ++asked;
    return PlanEvaluation{all, asked % 3 != 0};
  }
  std::int64_t asked = 0;
};

TEST(DeviceGroups, CountsWhatItDid) {
  const Fixture f(kMixed, 4);
  Fake judge;
  const GroupedOutcome found = device_groups(f.problem, judge, {});
  EXPECT_EQ(found.sizes, 3);  // 1, 2 and 4 samples
  EXPECT_EQ(found.simulations, judge.asked);
  EXPECT_GT(found.out_of_memory, 0);
  EXPECT_LE(found.refined, found.simulations);
  ASSERT_TRUE(found.best);
  EXPECT_EQ(found.best->iteration_ns, found.simulated.front().iteration_ns);
  EXPECT_LE(found.lower_bound_ns, found.best->iteration_ns);
  EXPECT_TRUE(found.complete);
}

/// With a known plan that hardly any other can beat, limits alone rule out most sizes, and the bound remains valid.
TEST(DeviceGroups, AKnownPlanSparesWork) {
  const Fixture f(kMixed, 16);
  Fake judge, same;
  const GroupedOutcome alone = device_groups(f.problem, judge, {});
  DeviceGroupsOptions how;
  how.incumbent_ns = alone.lower_bound_ns + 1;
  const GroupedOutcome with = device_groups(f.problem, same, how);
  EXPECT_LT(with.tried * 4, alone.tried);
  EXPECT_GT(with.refused, 0);
  EXPECT_LE(with.lower_bound_ns, how.incumbent_ns);
  EXPECT_GE(with.lower_bound_ns + with.lower_bound_ns * (kWorthPermille + 1) / 1000, alone.lower_bound_ns);
  how.cutoff = false;
  const GroupedOutcome without = device_groups(f.problem, same, how);
  EXPECT_EQ(without.refused, 0);
  EXPECT_EQ(without.lower_bound_ns, alone.lower_bound_ns);
}

TEST(DeviceGroups, APinnedNumberOfStagesHolds) {
  Fixture f(kMixed, 4);
  f.problem.space.allow(Dimension::pp, {2});
  Fake judge;
  const GroupedOutcome found = device_groups(f.problem, judge, {});
  ASSERT_FALSE(found.simulated.empty());
  for (const GroupedCandidate& c : found.simulated) EXPECT_EQ(c.pipelines.front().stages.size(), 2U);
}

TEST(DeviceGroups, AnInterruptedSearchKnowsNoBound) {
  const Fixture f(kMixed, 4);
  Fake judge;
  DeviceGroupsOptions how;
  how.interrupted = [] { return true; };
  const GroupedOutcome found = device_groups(f.problem, judge, how);
  EXPECT_TRUE(found.interrupted);
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.lower_bound_ns, 0);
  EXPECT_FALSE(found.best);
}

}  // namespace
}  // namespace espalier::search::stage_options_test
