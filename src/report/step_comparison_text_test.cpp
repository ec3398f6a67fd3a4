// SPDX-License-Identifier: Apache-2.0
// Tests the text about a measured step for people and programs, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/step_comparison.h"

namespace espalier::report {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Returns two ranks of 10 ms. Rank 1 computes 2 ms longer than predicted and waits 1 ms less, so that its step takes
/// 11 ms.
StepComparison two_ranks() {
  StepComparison c;
  c.predicted_ns = 10'000'000;
  c.measured_ns = 11'000'000;
  c.step = 7;
  c.steps = 9;
  c.clock_error_ns = 3000;
  const Breakdown predicted{6'000'000, 1'000'000, 2'000'000, 500'000, 500'000, 0};
  Breakdown slow = predicted, waits = predicted;
  slow.compute_ns += 2'000'000;
  slow.bubble_ns -= 1'000'000;
  waits.bubble_ns += 1'000'000;
  c.ranks = {{0, 0, 0, predicted, waits}, {1, 0, 1, predicted, slow}};
  c.operators = {{"decoder", "mlp.up", "forward", 8, 3'000'000, 5'000'000},
                 {"head", "head.logits", "weight_gradient", 4, 0, 100'000}};
  c.measured.label = "PP2";
  return c;
}

TEST(StepComparisonText, GapsArePutWhereTheyAre) {
  const std::string text = to_text(two_ranks());
  EXPECT_THAT(text, HasSubstr("predicted 10.0 ms, measured 11.0 ms (+10.0 %): step 7, the median of 9"));
  EXPECT_THAT(text, HasSubstr("clocks of ranks agree within 3.0 us"));
  EXPECT_THAT(text, ContainsRegex("compute +6.0 ms +7.0 ms +\\+1.0 ms +10.0 %"));  // means of both ranks
  EXPECT_THAT(text, ContainsRegex("bubble +2.0 ms +2.0 ms"));
  EXPECT_LT(text.find("\n  1  "), text.find("\n  0  "));  // the rank with the larger gaps first
  EXPECT_THAT(text, ContainsRegex("decoder +mlp.up +forward +8 +3.0 ms +5.0 ms +\\+2.0 ms +\\+66.7 %"));
  EXPECT_THAT(text, ContainsRegex("head.logits +weight_gradient +4 .* –"));
}

TEST(StepComparisonText, WithoutOperatorsItSaysWhy) {
  StepComparison c = two_ranks();
  c.operators.clear();
  EXPECT_THAT(to_text(c), HasSubstr("Operators are not compared"));
  EXPECT_THAT(to_text(two_ranks()), Not(HasSubstr("Operators are not compared")));
}

TEST(StepComparisonText, JsonHasEveryPart) {
  const auto json = nlohmann::json::parse(to_json(two_ranks()));
  EXPECT_EQ(json["schema"], "espalier.step-comparison/1");
  EXPECT_DOUBLE_EQ(json["ranks"][1]["measured"]["compute_s"], 0.008);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["measured"]["bubble_s"], 0.003);
  EXPECT_EQ(json["operators"][1]["times"], 4);
  double measured = 0;
  for (const auto& [name, part] : json["ranks"][1]["measured"].items()) measured += part.get<double>();
  EXPECT_NEAR(measured, 0.011, 1e-12);
}

}  // namespace
}  // namespace espalier::report
