// SPDX-License-Identifier: Apache-2.0
// Tests that comparing plans of unlike jobs begins with a warning, that MFU is given with causal attention in full
// and half, and that parts are of the busiest stage.
#include "espalier/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::report {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Compared plan_of(const char* name, const char* model, std::int64_t batch) {
  Compared c{name, {}};
  c.result.plan.model_name = model;
  c.result.plan.model_hash = "0123456789abcdef";
  c.result.plan.cluster_summary = "8 × h100-sxm-80gb";
  c.result.plan.training.global_batch = batch;
  c.result.plan.only_pipeline().stages.push_back({{{0, 1, 1}}, {{{{0, 2, {}}}}}});
  Prediction& p = c.result.prediction;
  p.iteration_ns = 2'000'000'000;
  p.mfu = 0.5;
  p.mfu_causal = 0.45;
  p.breakdown.compute_ns = 1'000'000'000;
  p.bottleneck.breakdown.compute_ns = 1'500'000'000;
  return c;
}

TEST(Compare, UnlikeJobsAreNamed) {
  EXPECT_THAT(unlike({plan_of("a", "m", 8), plan_of("b", "m", 8)}), IsEmpty());
  EXPECT_THAT(
      unlike({plan_of("a", "m", 8), plan_of("b", "n", 16)}),
      ElementsAre("plans 1 and 2 differ in their model: m and n", "plans 1 and 2 differ in their global batch: 8 and 16"));
  Compared other = plan_of("b", "m", 8);
  other.result.plan.model_hash = "fedcba9876543210";
  EXPECT_THAT(unlike({plan_of("a", "m", 8), other}),
              ElementsAre("plans 1 and 2 differ in their model: m (01234567) and m (fedcba98)"));
  EXPECT_THAT(compare({plan_of("a", "m", 8), plan_of("b", "m", 16)}),
              HasSubstr("WARNING: plans 1 and 2 differ in their global batch"));
  EXPECT_THAT(compare_json({plan_of("a", "m", 8), plan_of("b", "m", 16)}), HasSubstr("\"warnings\": ["));
}

TEST(Compare, ModulesOfARecomputationAreADifference) {
  const auto recomputing = [](const char* name, RecomputeModules modules) {
    Compared c = plan_of(name, "m", 8);
    c.result.plan.only_pipeline().stages.front().chunks.front().ranges.front().strategy.recompute = {RecomputeKind::selective, 0,
                                                                                                     modules};
    return c;
  };
  const Compared act = recomputing("a", {RecomputeModule::act}), mlp = recomputing("b", {RecomputeModule::mlp});
  EXPECT_THAT(compare({act, mlp}), AllOf(HasSubstr("selective(act)"), HasSubstr("selective(mlp)")));
  EXPECT_THAT(compare({act, act}), Not(HasSubstr("selective(")));
}

TEST(Compare, BothWaysToCountAttention) {
  const std::string text = compare({plan_of("a", "m", 8)});
  EXPECT_THAT(text, HasSubstr("MFU, attention in full"));
  EXPECT_THAT(text, HasSubstr("45.0 %"));
  EXPECT_THAT(text, Not(HasSubstr("WARNING")));
}

TEST(Compare, PartsAreOfTheBusiestStage) {
  Compared pipeline = plan_of("a", "m", 8);
  pipeline.result.prediction.bottleneck.stage = 1;
  pipeline.result.prediction.bottleneck.busy_per_stage = {0.5, 0.9};
  const std::string text = compare({pipeline});
  EXPECT_THAT(text, HasSubstr("of the busiest stage"));
  EXPECT_THAT(text, HasSubstr("1.500 s"));
  EXPECT_THAT(compare({plan_of("a", "m", 8)}), HasSubstr("1.000 s"));
}

}  // namespace
}  // namespace espalier::report
