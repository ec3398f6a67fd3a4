// SPDX-License-Identifier: Apache-2.0
#include "espalier/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "plan/dimension.h"
#include "plan/generators.h"
#include "plan/test_problem.h"

namespace espalier {
namespace {

Plan example() {
  Strategy s;
  s.tp = 2;
  s.sp = SequenceParallel::megatron;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  s.recompute = {RecomputeKind::full, 2};
  const Schedule schedule{ScheduleKind::interleaved, 2, 2, 4, 1};
  return make_uniform_plan(plan_test::decoder({}), plan_test::cluster(1, 8), plan_test::training(64, 8), "generic", s, schedule,
                           SplitPolicy::balanced);
}

TEST(PlanText, LabelAndCanonicalText) {
  EXPECT_EQ(example().label(), "TP2·SP CP1 PP2(v2) DP2 ZeRO-1 mb1 interleaved full-recompute×2");
  EXPECT_EQ(example().canonical_text(),
            "pp0000002 vpp0000002 sched2 tp0000002 sp1 cp0000001 kind0 ep0000001 etp0000001 dp0000002 mb0000000001 zero1 "
            "shard0000002 order0 rc2 rl0000002 og0 oq0 op0 ot0");
}

TEST(PlanText, LabelNamesWhatIsUnusual) {
  Plan plan = example();
  std::int64_t first = 0;
  for (Stage& stage : plan.only_pipeline().stages) {
    stage.devices = {{first, 16, 1}};  // tp 2 · cp 4 · dp 2, in the usual rank order
    first += 16;
    for (Chunk& chunk : stage.chunks) {
      Strategy& s = chunk.ranges.front().strategy;
      s.sp = SequenceParallel::ulysses;
      s.cp = 4;
      s.cp_kind = ContextParallelKind::all_to_all;
      s.ep = 4;
      s.zero = ZeroStage::parameters;
      s.order = RankOrder::tp_dp_cp_pp;
      s.recompute = {RecomputeKind::selective, 0};
      s.overlap = {true, false, true, false};
    }
  }
  EXPECT_EQ(plan.label(),
            "Ulysses2 CP4·a2a EP4 ETP1 PP2(v2) DP2 ZeRO-3/2 mb1 interleaved selective-recompute tp-dp-cp-pp overlap:grad+p2p");
}

TEST(StrategyLabel, NamesWhatIsUnusual) {
  Strategy s;
  EXPECT_EQ(label(s), "DP1");
  s.dp = 8;
  EXPECT_EQ(label(s), "DP8");
  s.tp = 2;
  EXPECT_EQ(label(s), "TP2·DP8");
  s.zero = ZeroStage::parameters;
  s.shard = 8;
  s.recompute = {RecomputeKind::full, 5};
  EXPECT_EQ(label(s), "TP2·DP8 ZeRO-3 +recompute");
  s.shard = 4;
  s.recompute = {RecomputeKind::selective, 0};
  EXPECT_EQ(label(s), "TP2·DP8 ZeRO-3/4 +selective");
  s = {};
  s.tp = 4;
  s.sp = SequenceParallel::ulysses;
  s.cp = 2;
  s.cp_kind = ContextParallelKind::all_to_all;
  s.ep = 8;
  s.order = RankOrder::tp_dp_cp_pp;
  EXPECT_EQ(label(s), "Ulysses4·CP2·a2a·EP8 tp-dp-cp-pp");
}

/// Returns embedding, 6 blocks and head on two stages of four devices: TP2 (ZeRO-1 on the first three
/// layers), then TP4.
Plan layerwise() {
  Plan plan;
  plan.only_pipeline().schedule = {ScheduleKind::one_f_one_b, 2, 1, 8, 2};
  plan.training.global_batch = 32;
  Strategy two;
  two.tp = 2;
  two.dp = 2;
  two.zero = ZeroStage::optimizer;
  two.shard = 2;
  two.recompute = {RecomputeKind::full, 1};
  Strategy four;
  four.tp = 4;
  four.overlap.p2p = true;
  plan.only_pipeline().stages = {{{{0, 4, 1}}, {Chunk{{{0, 2, two}, {3, 3, four}}}}}, {{{4, 4, 1}}, {Chunk{{{4, 7, four}}}}}};
  return plan;
}

TEST(LayerRuns, SayWhatEachLayerDoes) {
  const Plan plan = layerwise();
  // In the first range, the embedding recomputes nothing, and only the first of its two blocks recomputes.
  const auto runs = layer_runs(plan.only_pipeline().stages[0].chunks[0], 7);
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(label(runs[0].strategy), "TP2·DP2 ZeRO-1");
  EXPECT_EQ(runs[0].last, 0);
  EXPECT_EQ(label(runs[1].strategy), "TP2·DP2 ZeRO-1 +recompute");
  EXPECT_EQ(runs[1].layers(), 1);
  EXPECT_EQ(label(runs[2].strategy), "TP2·DP2 ZeRO-1");
  EXPECT_EQ(label(runs[3].strategy), "TP4");
  const auto last = layer_runs(plan.only_pipeline().stages[1].chunks[0], 7);
  ASSERT_EQ(last.size(), 2U);  // blocks 4 … 6, the head
  EXPECT_EQ(last[0].layers(), 3);
  EXPECT_EQ(last[1].first, 7);
}

TEST(LayerRuns, JoinRangesThatAreOneAndTheSame) {
  Plan plan = layerwise();
  auto& ranges = plan.only_pipeline().stages[1].chunks[0].ranges;
  ranges = {{4, 5, ranges[0].strategy}, {6, 7, ranges[0].strategy}};
  EXPECT_EQ(layer_runs(plan.only_pipeline().stages[1].chunks[0], 7).size(), 2U);
}

TEST(StrategyCounts, MostLayersFirst) {
  const auto counts = strategy_counts(layerwise());
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_EQ(label(counts[0].strategy), "TP4");
  EXPECT_EQ(counts[0].layers, 5);
  EXPECT_EQ(label(counts[1].strategy), "TP2·DP2 ZeRO-1");
  EXPECT_EQ(counts[1].layers, 2);
  EXPECT_EQ(counts[2].layers, 1);
  // There are 10 layers in 4 chunks. Two blocks of each recompute; the second chunk has no third.
  const auto uniform = strategy_counts(example());
  std::int32_t layers = 0;
  for (const StrategyCount& c : uniform) layers += c.layers;
  EXPECT_EQ(layers, 10);
}

TEST(PlanText, LayerwisePlansAreSpelledOut) {
  Plan plan = layerwise();
  EXPECT_FALSE(plan.uniform());
  EXPECT_EQ(plan.label(), "layer-wise PP2 1f1b 8×4 samples overlap:p2p: TP2·DP2 ZeRO-1 ×2, TP2·DP2 ZeRO-1 +recompute ×1, TP4 ×5");
  EXPECT_NE(plan.canonical_text().find(" | "), std::string::npos);
  // The label names four of seven strategies.
  Strategy s = plan.only_pipeline().stages[1].chunks[0].ranges[0].strategy;
  plan.only_pipeline().stages[1].chunks[0].ranges.clear();
  for (std::int32_t i = 0; i < 4; ++i) {
    s.tp = i % 2 == 0 ? 2 : 1;
    s.cp = 4 / s.tp;
    s.sp = i > 1 ? SequenceParallel::ulysses : SequenceParallel::none;
    plan.only_pipeline().stages[1].chunks[0].ranges.push_back({4 + i, 4 + i, s});
  }
  EXPECT_EQ(plan.label(),
            "layer-wise PP2 1f1b 8×4 samples overlap:p2p: TP2·DP2 ZeRO-1 ×2, TP2·DP2 ZeRO-1 +recompute ×1, TP4 ×1, TP2·CP2 ×1, 3 "
            "others ×3");
}

TEST(PlanText, TextOrderIsFieldOrder) {
  EXPECT_TRUE(rc::check("canonical_text compares like canonical_compare", [] {
    const auto [a, sa] = *plan_test::any_configuration();
    auto [b, sb] = *plan_test::any_configuration();
    if (*rc::gen::arbitrary<bool>()) {
      b = a;
      sb = sa;
      b.recompute.modules = {*rc::gen::element(RecomputeModule::core_attn, RecomputeModule::act, RecomputeModule::moe)};
    }
    const int by_text = canonical_text(a, sa).compare(canonical_text(b, sb));
    const int by_field = canonical_compare(a, sa, b, sb);
    RC_ASSERT((by_text < 0) == (by_field < 0));
    RC_ASSERT((by_text == 0) == (by_field == 0));
  }));
}

TEST(Dimensions, GetSetAndNamesAgree) {
  Strategy s;
  Schedule c;
  for (int i = 0; i < kDimensions; ++i) {
    const auto d = static_cast<Dimension>(i);
    EXPECT_EQ(parse_dimension(to_string(d)), d);
    const std::int64_t value = enum_size(d) > 0 ? enum_size(d) - 1 : 5;
    set(d, value, s, c);
    EXPECT_EQ(get(d, s, c), value) << to_string(d);
    EXPECT_NE(value_text(d, value), "?");
  }
  EXPECT_FALSE(parse_dimension("colour").has_value());
}

TEST(Validate, AcceptsAUniformPlan) { EXPECT_TRUE(validate(example()).ok()); }

TEST(Validate, NamesWhatIsBroken) {
  const auto where = [](auto change) {
    Plan plan = example();
    change(plan);
    const Status status = validate(plan);
    return !status.ok() ? status.error().where : std::string("accepted");
  };
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().schedule.microbatches = 0; }), "$.pipelines[0].schedule");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().schedule.microbatches = 3; }), "$.pipelines[0].schedule");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().schedule.microbatches = 2147483647; }), "$.pipelines[0].schedule");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().schedule.kind = ScheduleKind::gpipe; }), "$.pipelines[0].schedule");
  EXPECT_EQ(where([](Plan& p) { p.training.global_batch = 16; }), "$.pipelines");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages.pop_back(); }), "$.pipelines[0].stages");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages.clear(); }), "$.pipelines[0].stages");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[1].chunks.pop_back(); }), "$.pipelines[0].stages[1].layers");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[1].devices = p.only_pipeline().stages[0].devices; }), "$.pipelines");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[1].devices[0].count = 3; }), "$.pipelines[0].stages[1]");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[1].devices[0].count = std::int64_t{1} << 60; }),
            "$.pipelines[0].stages[1].devices");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[1].devices[0].stride = std::int64_t{1} << 62; }),
            "$.pipelines[0].stages[1].devices");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].chunks[1].ranges.front().first += 1; }),
            "$.pipelines[0].stages[0].layers[1]");
  EXPECT_EQ(where([](Plan& p) { p.pipelines.clear(); }), "$.pipelines");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().id = -1; }), "$.pipelines[0].id");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().samples = 4; }), "$.pipelines[0].schedule");
  EXPECT_EQ(where([](Plan& p) { p.pipelines.push_back(p.only_pipeline()); }), "$.pipelines[1].id");
  const std::string replicas = "$.pipelines[0].stages[0].samples_per_replica", states = "$.pipelines[0].stages[0].state_shares";
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].samples_per_replica = {1, 2, 3}; }), replicas);
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].samples_per_replica = {-1, 3}; }), replicas);
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].state_shares = {3, 1, 2}; }), states);
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].chunks[0].ranges.front().strategy.tp = 2147483647; }),
            "$.pipelines[0].stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].chunks[0].ranges.front().strategy.shard = 3; }),
            "$.pipelines[0].stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].chunks[0].ranges.front().strategy.ep = 3; }),
            "$.pipelines[0].stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.only_pipeline().stages[0].chunks[0].ranges.front().strategy.recompute.layers = 0; }),
            "$.pipelines[0].stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.model_source = "{}"; }), "$.model");
}

}  // namespace
}  // namespace espalier
