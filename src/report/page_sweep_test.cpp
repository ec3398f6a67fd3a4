// SPDX-License-Identifier: Apache-2.0
// Tests the table of a sweep on the page, cell by cell.
#include "report/page_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::report::page_sweep_test {
namespace {

/// Returns a plan of `devices` devices that take `seconds` for a step, 1000 tokens per second each.
PlannerResult of(std::int64_t devices, std::int64_t seconds) {
  PlannerResult r;
  r.plan.pipelines.front().stages.push_back({{{0, devices, 1}}, {{{{0, 2, {}}}}}});
  r.prediction.iteration_ns = seconds * 1'000'000'000;
  r.prediction.tokens_per_s_per_device = 1000;
  r.prediction.mfu = 0.5;
  r.prediction.peak_memory_bytes = 3LL << 30;
  return r;
}

Sweep of_nodes() {
  Sweep sweep{{{"cluster.nodes", {"1", "4", "9"}}}, {}};
  sweep.points.push_back({{"1"}, of(2, 4)});
  sweep.points.push_back({{"4"}, of(8, 1)});
  sweep.points.push_back({{"9"}, Result<PlannerResult>(Error{ErrorKind::infeasible, "plan", "nothing fits", "", ""})});
  return sweep;
}

// Two devices make 2,000 tokens per second and eight 8,000, so that the first bar is a quarter of the longest.
TEST(PageSweep, BarsAreTheThroughputOfAllDevicesBesideTheHighest) {
  const Sweep sweep = of_nodes();
  const PageTable table = sweep_table(sweep, 1);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][3].text, "2,000");
  EXPECT_DOUBLE_EQ(table.rows[0][3].share.value_or(0), 0.25);
  EXPECT_DOUBLE_EQ(table.rows[1][3].share.value_or(0), 1.0);
}

TEST(PageSweep, ThePlanOfThePageIsMarked) {
  const Sweep sweep = of_nodes();
  const PageTable table = sweep_table(sweep, 1);
  EXPECT_EQ(table.rows[0][0].text, "1");
  EXPECT_EQ(table.rows[1][0].text, "4 (this page)");
}

// Two engines may have the same best plan.
TEST(PageSweep, OfEqualPlansOnlyTheShownPointIsMarked) {
  Sweep sweep = of_nodes();
  sweep.points[0].result = sweep.points[1].result;
  const PageTable table = sweep_table(sweep, 1);
  EXPECT_EQ(table.rows[0][0].text, "1");
  EXPECT_EQ(table.rows[1][0].text, "4 (this page)");
}

TEST(PageSweep, APointWithoutAPlanSaysWhy) {
  const Sweep sweep = of_nodes();
  const PageTable table = sweep_table(sweep, 0);
  ASSERT_EQ(table.rows[2].size(), table.columns.size());
  EXPECT_EQ(table.rows[2][0].text, "9");
  EXPECT_THAT(table.rows[2].back().text, testing::HasSubstr("nothing fits"));
}

// The cost is that of a run; where its length is not given, that of a step.
TEST(PageSweep, CostsOfRunsGoBeforeCostsOfSteps) {
  Sweep sweep = of_nodes();
  sweep.points[0].result.value().prediction.cost = Expense{0.25, 0, 0, 0, 1, 5000, "USD"};
  sweep.points[1].result.value().prediction.cost = Expense{0.25, 0, 0, 0, 1, 0, "EUR"};
  const PageTable table = sweep_table(sweep, 0);
  EXPECT_EQ(table.rows[0][6].text, "5000 USD");
  EXPECT_EQ(table.rows[1][6].text, "0.2500 EUR per step");
  EXPECT_EQ(table.rows[2][6].text, "–");
}

}  // namespace
}  // namespace espalier::report::page_sweep_test
