// SPDX-License-Identifier: Apache-2.0
#include "planner/layerwise_reasons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::planner::layerwise_reasons_test {
namespace {

using testing::ElementsAre;

Plan two_stages(const Strategy& early, const Strategy& late) {
  Plan plan;
  plan.only_pipeline().schedule = {ScheduleKind::one_f_one_b, 2, 1, 4, 1};
  plan.only_pipeline().stages = {{{{0, 2, 1}}, {Chunk{{{0, 3, early}}}}}, {{{2, 2, 1}}, {Chunk{{{4, 6, late}}}}}};
  return plan;
}

/// Returns an answer of two stages: embedding + 3 blocks, 2 blocks + head. The first stage recomputes two of its
/// three blocks; a uniform plan must recompute all.
PlannerResult answer() {
  Strategy plain;
  plain.dp = 2;
  Strategy lean = plain, leaner = plain;
  lean.recompute = {RecomputeKind::full, 2};
  leaner.recompute = {RecomputeKind::full, 3};
  PlannerResult r;
  r.plan = two_stages(lean, plain);
  r.prediction.iteration_ns = 1'000'000'000;
  Alternative uniform;
  uniform.label = "best uniform plan";
  uniform.baseline = true;
  uniform.fits = true;
  uniform.plan = two_stages(leaner, leaner);
  r.alternatives = {uniform};
  r.search.balance = {{"even", {0, 3}, 0.4, 0.5, 1'100'000'000}};
  return r;
}

TEST(LayerwiseReasons, SayWhatRecomputesAndWhatAnEvenSplitCosts) {
  EXPECT_THAT(layerwise_reasons(answer()),
              ElementsAre("2 of 5 blocks recompute in full (by stage: 2, 0); in the best uniform plan all do.",
                          "The stages hold 4+3 layers: an even split, with its best strategies, takes 1.100 s (+10.0 %)."));
}

TEST(LayerwiseReasons, CompareShardingWithTheUniformPlan) {
  PlannerResult r = answer();
  for (Stage& stage : r.alternatives[0].plan->only_pipeline().stages) {
    Strategy& s = stage.chunks[0].ranges[0].strategy;
    s.zero = ZeroStage::parameters;
    s.shard = 2;
    s.recompute = {};
  }
  r.search.balance[0].iteration_ns = 0;
  EXPECT_THAT(layerwise_reasons(r),
              ElementsAre("2 of 5 blocks recompute in full (by stage: 2, 0); in the best uniform plan none do.",
                          "None of 5 blocks shard their parameters (ZeRO-3); in the best uniform plan all do.",
                          "The stages hold 4+3 layers: an even split does not fit."));
}

// A plan read from a file has no search and no alternatives, so the sentences cover only its own layers.
TEST(LayerwiseReasons, WithoutASearchThePlanAlone) {
  PlannerResult r = answer();
  r.alternatives.clear();
  r.search = {};
  EXPECT_THAT(layerwise_reasons(r), ElementsAre("2 of 5 blocks recompute in full (by stage: 2, 0)."));
}

TEST(LayerwiseReasons, NameTheRunnerUpOfTheSamePipeline) {
  PlannerResult r = answer();
  r.alternatives[0].plan->only_pipeline().schedule.stages = 1;
  Alternative other;
  other.label = "TP2 PP2";
  other.fits = true;
  other.iteration_ns = 1'300'000'000;
  other.plan = two_stages({}, {});
  r.alternatives.push_back(other);
  EXPECT_EQ(layerwise_reasons(r).back(),
            "With one strategy for all layers and the same number of stages, TP2 PP2 takes 1.300 s.");
}

}  // namespace
}  // namespace espalier::planner::layerwise_reasons_test
