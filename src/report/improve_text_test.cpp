// SPDX-License-Identifier: Apache-2.0
// Tests the text about a present configuration and better ones: one that runs, one that breaks rules, one that
// nothing replaces.
#include "espalier/improve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"

namespace espalier::report::improve_text_test {
namespace {

using testing::HasSubstr;
using testing::Not;

PlannerResult of(std::int64_t ns, bool fits = true) {
  PlannerResult r;
  r.plan.pipelines.front().stages.push_back({{{0, 1, 1}}, {{{{0, 2, {}}}}}});
  r.prediction.iteration_ns = ns;
  r.prediction.tokens_per_s_per_device = 1000;
  r.prediction.mfu = 0.5;
  r.prediction.peak_memory_bytes = 3LL << 30;
  r.prediction.memory_limit_bytes = fits ? 4LL << 30 : 2LL << 30;
  r.prediction.fits = fits;
  return r;
}

adapt::Improvement runs() {
  adapt::Improvement i;
  i.present = of(2'000'000'000);
  i.best = of(1'500'000'000);
  i.gain = 0.25;  // 1 − 1.5 / 2
  i.changes = {{"tp", "tp 8 -> 4", "TP4 DP2", 1'600'000'000, 2LL << 30, true, 0.2, {}, {}, {}}};
  i.tried = 7;
  return i;
}

TEST(ImproveText, SaysWhatIsSaved) {
  const std::string text = to_text(runs());
  EXPECT_THAT(text, HasSubstr("2.000 s per step, 1,000 tokens/s/GPU, MFU 50.0 %, 3.0 GiB of 4.0 GiB"));
  EXPECT_THAT(text, HasSubstr("saves 25.0 % of the step"));
  EXPECT_THAT(text, HasSubstr("Single changes that gain most, of 7 tried"));
  EXPECT_THAT(text, HasSubstr("tp 8 -> 4"));
  EXPECT_THAT(text, HasSubstr("20.0 %"));
}

TEST(ImproveText, NothingBetterIsSaid) {
  adapt::Improvement i = runs();
  i.best = of(2'000'000'000);
  i.gain = 0;
  i.changes.clear();
  const std::string text = to_text(i);
  EXPECT_THAT(text, HasSubstr("no plan of this engine is faster by more than 0.05 %"));  // no margin
  EXPECT_THAT(text, HasSubstr("Of 7 single changes none is faster and fits."));
  i.memory_margin = 0.23;
  EXPECT_THAT(to_text(i), HasSubstr("no plan of this engine that leaves 23.0 % of memory free is faster by more than 0.05 %"));
  EXPECT_THAT(to_text(i), Not(HasSubstr("less than usual")));
}

// The best plan may be the present one, or one change of it. The text names what was searched because of it.
TEST(ImproveText, WhereTheBestPlanIsFrom) {
  adapt::Improvement i = runs();
  i.best_from = adapt::Improvement::From::present;
  i.none = Error{ErrorKind::infeasible, "plan", "none of 8 configurations fits", "a plan", ""};
  i.widened["offload"] = {"none", "optimizer"};
  const std::string text = to_text(i, 0, "Changes in launch.sh\n  line 2:   TP 8 -> 4\n");
  EXPECT_THAT(text, HasSubstr("the present plan itself: nothing else in the searched space fits"));
  EXPECT_THAT(text, HasSubstr("searched with offload none, optimizer, because the present plan uses it"));
  EXPECT_THAT(text, HasSubstr("Changes in launch.sh\n  line 2:   TP 8 -> 4"));
  EXPECT_THAT(text, Not(HasSubstr("best:    none")));
  EXPECT_THAT(to_json(i), HasSubstr("\"best_from\": \"present plan\""));
}

TEST(ImproveText, APresentPlanWithinTheMarginIsSaid) {
  adapt::Improvement i = runs();
  i.memory_margin = 0.1;
  i.margin_of_present = true;
  EXPECT_THAT(to_text(i), HasSubstr("leaves 10.0 % of memory free, less than usual"));
  EXPECT_THAT(to_json(i), HasSubstr("\"margin_of_present\": true"));
}

TEST(ImproveText, WhatDoesNotFitOrBreaksRulesHasNoSaving) {
  adapt::Improvement i = runs();
  i.present = of(2'000'000'000, false);
  EXPECT_THAT(to_text(i), HasSubstr("which does not fit"));
  EXPECT_THAT(to_text(i), Not(HasSubstr("of the step")));
  i.present.reset();
  i.broken = "TP-HEADS: 32 heads over tp 6";
  EXPECT_THAT(to_text(i), HasSubstr("present: cannot run: TP-HEADS"));
  EXPECT_THAT(to_text(i), HasSubstr("Single changes that make it run, of 7 tried"));
  i.best.reset();
  i.none = Error{ErrorKind::infeasible, "plan", "nothing fits", "a plan", "more devices"};
  EXPECT_THAT(to_text(i), HasSubstr("best:    none: nothing fits; more devices"));
}

TEST(ImproveText, JsonHasBothAndTheChanges) {
  const auto document = base::read_json(to_json(runs()), "improvement");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_THAT(to_json(runs()), HasSubstr("\"schema\": \"espalier.improvement/1\""));
  EXPECT_THAT(to_json(runs()), HasSubstr("\"change\": \"tp 8 -> 4\""));
}

}  // namespace
}  // namespace espalier::report::improve_text_test
