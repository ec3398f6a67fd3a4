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
  s.zero = 1;
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
  for (Stage& stage : plan.stages) {
    for (Chunk& chunk : stage.chunks) {
      Strategy& s = chunk.ranges.front().strategy;
      s.sp = SequenceParallel::ulysses;
      s.cp = 4;
      s.cp_kind = ContextParallelKind::all_to_all;
      s.ep = 4;
      s.zero = 3;
      s.order = RankOrder::tp_dp_cp_pp;
      s.recompute = {RecomputeKind::selective, 0};
      s.overlap = {true, false, true, false};
    }
  }
  EXPECT_EQ(plan.label(),
            "TP2·Ulysses CP4·a2a EP4 ETP1 PP2(v2) DP2 ZeRO-3/2 mb1 interleaved selective-recompute tp-dp-cp-pp overlap:grad+p2p");
}

TEST(PlanText, UnequalChunksAreSpelledOut) {
  Plan plan = example();
  plan.stages[1].chunks[0].ranges.front().strategy.zero = 0;
  EXPECT_NE(plan.canonical_text().find(" | "), std::string::npos);
  EXPECT_NE(plan.label().find("(layer-wise)"), std::string::npos);
}

TEST(PlanText, TextOrderIsFieldOrder) {
  EXPECT_TRUE(rc::check("canonical_text compares like canonical_compare", [] {
    const auto [a, sa] = *plan_test::any_configuration();
    const auto [b, sb] = *plan_test::any_configuration();
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

TEST(Validate, AcceptsAUniformPlan) { EXPECT_FALSE(validate(example()).has_value()); }

TEST(Validate, NamesWhatIsBroken) {
  const auto where = [](auto change) {
    Plan plan = example();
    change(plan);
    const Status status = validate(plan);
    return status ? status->where : std::string("accepted");
  };
  EXPECT_EQ(where([](Plan& p) { p.schedule.microbatches = 0; }), "$.schedule");
  EXPECT_EQ(where([](Plan& p) { p.schedule.microbatches = 3; }), "$.schedule");
  EXPECT_EQ(where([](Plan& p) { p.schedule.microbatches = 2147483647; }), "$.schedule");
  EXPECT_EQ(where([](Plan& p) { p.schedule.kind = ScheduleKind::gpipe; }), "$.schedule");
  EXPECT_EQ(where([](Plan& p) { p.training.global_batch = 16; }), "$.schedule");
  EXPECT_EQ(where([](Plan& p) { p.stages.pop_back(); }), "$.stages");
  EXPECT_EQ(where([](Plan& p) { p.stages.clear(); }), "$.stages");
  EXPECT_EQ(where([](Plan& p) { p.stages[1].chunks.pop_back(); }), "$.stages[1].layers");
  EXPECT_EQ(where([](Plan& p) { p.stages[1].devices = p.stages[0].devices; }), "$.stages");
  EXPECT_EQ(where([](Plan& p) { p.stages[1].devices[0].count = 3; }), "$.stages[1]");
  EXPECT_EQ(where([](Plan& p) { p.stages[1].devices[0].count = std::int64_t{1} << 60; }), "$.stages[1].devices");
  EXPECT_EQ(where([](Plan& p) { p.stages[1].devices[0].stride = std::int64_t{1} << 62; }), "$.stages[1].devices");
  EXPECT_EQ(where([](Plan& p) { p.stages[0].chunks[1].ranges.front().first += 1; }), "$.stages[0].layers[1]");
  EXPECT_EQ(where([](Plan& p) { p.stages[0].share = 0; }), "$.stages[0].share");
  EXPECT_EQ(where([](Plan& p) { p.stages[0].chunks[0].ranges.front().strategy.tp = 2147483647; }),
            "$.stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.stages[0].chunks[0].ranges.front().strategy.shard = 3; }), "$.stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.stages[0].chunks[0].ranges.front().strategy.ep = 3; }), "$.stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.stages[0].chunks[0].ranges.front().strategy.recompute.layers = 0; }),
            "$.stages[0].layers[0].strategy");
  EXPECT_EQ(where([](Plan& p) { p.model_source = "{}"; }), "$.model");
}

}  // namespace
}  // namespace espalier
