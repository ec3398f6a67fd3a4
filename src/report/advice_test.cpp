// SPDX-License-Identifier: Apache-2.0
// Checks that advice matches the simulated changes. In a step of 10 s with a bubble of 2 s, vpp 2 leaves 1.2 s of
// bubble and makes the step 9.5 s long.
#include "report/advice.h"

#include <gtest/gtest.h>

namespace espalier::report::advice_test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
const planner::TimePart kBubble{planner::TimeKind::bubble, "pipeline bubble", 2 * kSecond};

SingleChange change(const char* text, std::int64_t step, std::int64_t bubble, bool fits = true) {
  SingleChange c;
  c.change = text;
  c.iteration_ns = step;
  c.gain = 1 - static_cast<double>(step) / (10.0 * kSecond);
  c.fits = fits;
  c.peak_memory_bytes = (fits ? 60LL : 90LL) << 30;
  c.breakdown.bubble_ns = bubble;
  return c;
}

PlannerResult result_with(std::vector<SingleChange> changes) {
  PlannerResult r;
  r.prediction.iteration_ns = 10 * kSecond;
  r.prediction.memory_limit_bytes = 80LL << 30;
  r.changes = std::move(changes);
  return r;
}

TEST(Advice, NothingSimulatedNothingSaid) {
  EXPECT_EQ(advice(kBubble, result_with({})), "");
  // another part is smaller
  EXPECT_EQ(advice(kBubble, result_with({change("tp 8 -> 4", 9 * kSecond, 2 * kSecond)})), "");
  EXPECT_EQ(advice(kBubble, result_with({change("tp 8 -> 4", 9 * kSecond, 2 * kSecond - 49'000'000)})),
            "");  // by less than 0.5 %
}

TEST(Advice, AChangeThatGainsComesFirst) {
  const auto gains = change("vpp 1 -> 2", 95 * kSecond / 10, 12 * kSecond / 10);
  const auto slower = change("pp 8 -> 1", 12 * kSecond, 0);
  EXPECT_EQ(advice(kBubble, result_with({slower, gains})), "vpp 1 -> 2 takes 800.0 ms off it and 5.0 % off the step");
  EXPECT_EQ(advice(kBubble, result_with({gains, slower})), "vpp 1 -> 2 takes 800.0 ms off it and 5.0 % off the step");
}

TEST(Advice, ElseThePriceIsNamed) {
  EXPECT_EQ(advice(kBubble, result_with({change("pp 8 -> 1", 12 * kSecond, 0)})),
            "pp 8 -> 1 takes 2.000 s off it, but the step grows by 20.0 %");
  EXPECT_EQ(advice(kBubble, result_with({change("recompute full -> none", 8 * kSecond, kSecond, false)})),
            "recompute full -> none takes 1.000 s off it, but needs 90.0 GiB of 80.0 GiB");
}

// An update on the host counts as optimizer: the host's part of a change is taken off its optimizer.
TEST(Advice, PartsAreComparedWithTheSamePart) {
  auto c = change("zero 0 -> 1", 9 * kSecond, 2 * kSecond);
  c.breakdown.optimizer_ns = 5 * kSecond;
  c.breakdown.step_host_ns = 4 * kSecond;
  const planner::TimePart update{planner::TimeKind::update, "optimizer update", 3 * kSecond};
  EXPECT_EQ(advice(update, result_with({c})), "zero 0 -> 1 takes 2.000 s off it and 10.0 % off the step");
}

}  // namespace
}  // namespace espalier::report::advice_test
