// SPDX-License-Identifier: Apache-2.0
#include "lab/spread.h"

#include <gtest/gtest.h>

#include <cmath>

namespace espalier::lab {
namespace {

// Two clusters of two runs have the means 1 and 3. Between: 2·1 + 2·1 = 4; within: 2 + 2 over 2. So (4 − 2)/2 = 1 of
// 1 + 2 is shared.
TEST(Spread, RunsThatShareAnErrorCountForFewer) {
  const std::vector<ErrorPoint> some = {{0, 1, "a"}, {2, 1, "a"}, {2, 1, "b"}, {4, 1, "b"}};
  EXPECT_DOUBLE_EQ(intraclass_correlation(some), 1.0 / 3);
  EXPECT_DOUBLE_EQ(effective_runs(some, 1.0 / 3), 3);  // 2/(1 + 1/3) each
  const std::vector<ErrorPoint> all = {{1, 1, "a"}, {1, 1, "a"}, {3, 1, "b"}, {3, 1, "b"}};
  EXPECT_DOUBLE_EQ(intraclass_correlation(all), 1);
  EXPECT_DOUBLE_EQ(effective_runs(all, 1), 2);
  const std::vector<ErrorPoint> none = {{0, 1, "a"}, {2, 1, "a"}, {0, 1, "b"}, {2, 1, "b"}};
  EXPECT_DOUBLE_EQ(intraclass_correlation(none), 0);
  EXPECT_DOUBLE_EQ(effective_runs(none, 0), 4);
  // One cluster carries no information about others.
  EXPECT_DOUBLE_EQ(intraclass_correlation({{5, 1, "a"}, {6, 1, "a"}}), 0);
  EXPECT_DOUBLE_EQ(effective_runs({}, 0.5), 0);
}

TEST(Spread, VariancesAreShrunkByTheirDegreesOfFreedom) {
  const Variance v = shrunk({4, 6}, {1, 2});
  EXPECT_DOUBLE_EQ(v.value, 3.25);  // (24 + 2)/8
  EXPECT_DOUBLE_EQ(v.freedom, 8);
  EXPECT_DOUBLE_EQ(mean_square({{3, 1, ""}, {-1, 3, ""}}), 3);  // (9 + 3)/4
}

// Four equal variances with 10 degrees of freedom differ by less than chance: one variance fits all, at the largest
// freedom allowed. Its logarithm is log 0.04 + log 5 − ψ(5), ψ(5) = 1.506118, less log 500 − ψ(500) = 0.001.
TEST(Spread, EqualVariancesAreOne) {
  const Variance v = common_variance({{0.04, 10}, {0.04, 10}, {0.04, 10}, {0.04, 10}});
  EXPECT_NEAR(v.freedom, 1000, 1);
  EXPECT_NEAR(v.value, 0.04 * std::exp(std::log(5.0) - 1.506118 - 0.001), 1e-6);
  EXPECT_DOUBLE_EQ(common_variance({{0.04, 10}}).freedom, 0);
}

// The logarithms of the variances are ten apart: a spread of 50, far beyond what ten degrees of freedom explain,
// ψ′(5) = 0.2213. So ψ′(d₀/2) = 49.8 and d₀ = 0.29.
TEST(Spread, UnlikeVariancesHaveLittleInCommon) {
  const Variance v = common_variance({{std::exp(-5.0), 10}, {std::exp(5.0), 10}});
  EXPECT_NEAR(v.freedom, 0.29, 0.01);
}

TEST(Spread, StudentsQuantiles) {
  EXPECT_NEAR(student_quantile(0.9, 1e6), 1.2816, 1e-4);
  EXPECT_NEAR(student_quantile(0.9, 30), 1.3104, 1e-4);
  EXPECT_NEAR(student_quantile(0.9, 5), 1.4759, 1e-3);
  EXPECT_NEAR(student_quantile(0.9, 2), 1.8856, 0.006);
  EXPECT_NEAR(student_quantile(0.9, 1), 3.0777, 0.13);
}

TEST(Spread, SidesFollowTheirOwnQuantilesWhereRunsSaySo) {
  const Sides prior = error_sides({}, 0, {0.01, 1000}, 0.8);
  EXPECT_NEAR(prior.low, 1.2824 * 0.1, 1e-4);
  EXPECT_DOUBLE_EQ(prior.low, prior.high);
  // No run is slower than predicted: 1000 errors of −0.2, 1000 of 0.
  std::vector<ErrorPoint> points;
  for (int i = 0; i < 2000; ++i) points.push_back({i % 2 == 0 ? -0.2 : 0.0, 1, std::to_string(i)});
  const Sides own = error_sides(points, 2000, {0.01, 2}, 0.8);
  EXPECT_NEAR(own.low, 0.2, 0.001);
  EXPECT_LT(own.high, 0.01);
  const Sides few = error_sides(points, 1, {0.01, 2}, 0.8);  // a single run has no sides
  EXPECT_DOUBLE_EQ(few.low, few.high);
}

}  // namespace
}  // namespace espalier::lab
