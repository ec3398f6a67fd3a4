// SPDX-License-Identifier: Apache-2.0
// Tests a sweep of two settings: every combination, one of them without a plan.
#include "espalier/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "base/format.h"

namespace espalier::report::sweep_text_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PlannerResult of(std::int64_t ns) {
  PlannerResult r;
  r.plan.pipelines.front().stages.push_back({{{0, 1, 1}}, {{{{0, 2, {}}}}}});
  r.prediction.iteration_ns = ns;
  r.prediction.confidence = {static_cast<double>(ns) * 0.9e-9, static_cast<double>(ns) * 1.2e-9, 0.8, "test"};
  r.prediction.tokens_per_s_per_device = 1000;
  r.prediction.mfu = 0.5;
  r.prediction.peak_memory_bytes = 3LL << 30;
  r.prediction.memory_limit_bytes = 4LL << 30;
  r.prediction.fits = true;
  return r;
}

Sweep two_by_two() {
  Sweep sweep{{{"cluster.nodes", {"1", "2"}}, {"engine", {"a,b", "c"}}}, {}};
  for (const auto& values : combinations(sweep.axes))
    sweep.points.push_back({values, sweep.points.size() == 3
                                        ? Result<PlannerResult>(Error{ErrorKind::infeasible, "plan", "nothing fits", "", ""})
                                        : Result<PlannerResult>(of(1'000'000'000))});
  return sweep;
}

TEST(SweepText, LastAxisChangesFastest) {
  EXPECT_THAT(combinations({{"x", {"1", "2"}}, {"y", {"a", "b"}}}),
              ElementsAre(ElementsAre("1", "a"), ElementsAre("1", "b"), ElementsAre("2", "a"), ElementsAre("2", "b")));
  EXPECT_THAT(combinations({}), ElementsAre(ElementsAre()));
  EXPECT_TRUE(combinations({{"x", {}}}).empty());
}

TEST(SweepText, TableHasIntervalsAndReasons) {
  const std::string text = to_text(two_by_two());
  EXPECT_THAT(text, HasSubstr("cluster.nodes"));
  EXPECT_THAT(text, HasSubstr("900.0 ms – 1.200 s"));
  EXPECT_THAT(text, HasSubstr("nothing fits"));
  EXPECT_EQ(text.find("cost"), std::string::npos);  // nothing has a price
}

TEST(SweepText, NarrowTerminalsHaveThePlansBelow) {
  const std::string text = to_text(two_by_two(), 80);
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    EXPECT_LE(base::display_width(std::string_view(text).substr(at, text.find('\n', at) - at)), 80U) << text;
  EXPECT_EQ(text.find("cluster.nodes"), std::string::npos);
  EXPECT_LT(text.find("interval"), text.find("\n\n"));
  EXPECT_GT(text.find("nothing fits"), text.find("\n\n"));
  EXPECT_EQ(text.find("days"), std::string::npos);  // no point has any
}

TEST(SweepText, CostWhereThereArePrices) {
  Sweep sweep = two_by_two();
  sweep.points.front().result.value().prediction.cost = Expense{0.25, 0, 0, 0, 1, 5000, "USD"};
  EXPECT_THAT(to_text(sweep), HasSubstr("5000 USD"));
  EXPECT_THAT(to_csv(sweep), HasSubstr("0.25,5000,USD"));
}

TEST(SweepText, CsvQuotesWhatHoldsCommas) {
  const std::string csv = to_csv(two_by_two());
  EXPECT_TRUE(csv.starts_with("cluster.nodes,engine,iteration_s,"));
  EXPECT_THAT(csv, HasSubstr("\n1,\"a,b\",1.000000000,0.9,1.2,0.8,1000,0.5,3221225472,4294967296,,,,,,"));
  EXPECT_THAT(csv, HasSubstr("\n2,c,,,,,,,,,,,,,,,plan: found nothing fits\n"));
  std::size_t columns = 0;
  for (const char c : csv.substr(0, csv.find('\n'))) columns += c == ',' ? 1 : 0;
  EXPECT_EQ(columns, 16u);  // two axes and fifteen more
}

TEST(SweepText, JsonHasAxesAndPoints) {
  const auto json = base::read_json(to_json(two_by_two()), "sweep");
  ASSERT_TRUE(json.ok()) << json.error().message();
  EXPECT_EQ(json->root.find("over")->text, "cluster.nodes,engine");
  EXPECT_EQ(json->root.find("axes")->items.size(), 2u);
  ASSERT_EQ(json->root.find("points")->items.size(), 4u);
  EXPECT_NE(json->root.find("points")->items[0].find("result"), nullptr);
  EXPECT_EQ(json->root.find("points")->items[3].find("error")->text, "plan: found nothing fits");
}

}  // namespace
}  // namespace espalier::report::sweep_text_test
