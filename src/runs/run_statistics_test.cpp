// SPDX-License-Identifier: Apache-2.0
#include "runs/run_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/invariant.h"

namespace espalier::runs {
namespace {

TEST(Statistics, HandCounted) {
  // Errors of +10 %, −20 %, +30 % have ape 0.1 0.2 0.3, mean 0.2, bias 0.2/3.
  const ErrorSummary s = summarize({0.1, -0.2, 0.3});
  EXPECT_EQ(s.n, 3);
  EXPECT_DOUBLE_EQ(s.mape, 0.2);
  EXPECT_DOUBLE_EQ(s.mean_accuracy, 0.8);
  EXPECT_DOUBLE_EQ(s.median_ape, 0.2);
  EXPECT_DOUBLE_EQ(s.p90_ape, 0.3);
  EXPECT_NEAR(s.bias, 0.2 / 3, 1e-15);
  EXPECT_EQ(summarize({}).n, 0);
}

// With errors of +300 %, 0 and 0, the first counts as 100 %. The mean accuracy is thus 2/3 and not 0; the mean of the
// errors stays 1.
TEST(Statistics, AnErrorAbove100PercentCountsAs100) {
  const ErrorSummary s = summarize({3.0, 0.0, 0.0});
  EXPECT_DOUBLE_EQ(s.mean_accuracy, 2.0 / 3);
  EXPECT_DOUBLE_EQ(s.median_accuracy, 1.0);
  EXPECT_DOUBLE_EQ(s.mape, 1.0);
  EXPECT_DOUBLE_EQ(summarize({3.0}).median_accuracy, 0.0);
}

// Relative errors of values that cannot be negative are finite and at least −1. A step that took no time has no
// throughput to lose.
TEST(Statistics, OnlyOfWhatWasMeasured) {
  EXPECT_THROW((void)summarize({0.1, std::nan("")}), base::InternalError);
  EXPECT_THROW((void)summarize({std::numeric_limits<double>::infinity()}), base::InternalError);
  EXPECT_THROW((void)summarize({-1.5}), base::InternalError);
  EXPECT_THROW((void)top1_regret({{1, 0}, {2, 3}}), base::InternalError);
}

TEST(Statistics, RepeatsCountOnceWithTheirMedian) {
  const std::vector<Pair> once = once_each({{"a", {{1, 4}, {1, 9}, {1, 9}}}, {"b", {{2, 5}, {2, 7}}}});
  ASSERT_EQ(once.size(), 2u);
  EXPECT_DOUBLE_EQ(once[0].measured, 9);
  EXPECT_DOUBLE_EQ(once[1].measured, 6);
  EXPECT_DOUBLE_EQ(once[1].predicted, 2);
}

TEST(Statistics, P90IsTheNinthOfTen) {
  std::vector<double> errors;
  for (int i = 1; i <= 10; ++i) errors.push_back(i / 100.0);
  EXPECT_DOUBLE_EQ(summarize(errors).p90_ape, 0.09);
  EXPECT_DOUBLE_EQ(summarize(errors).median_ape, 0.055);
}

TEST(Statistics, Feasibility) {
  FeasibilitySummary f;
  f.add(true, true);
  f.add(false, true);  // predicted not to fit, but it ran
  f.add(false, false);
  f.add(true, false);  // predicted to fit, but it did not
  EXPECT_EQ(f.true_fit, 1);
  EXPECT_EQ(f.false_oom, 1);
  EXPECT_EQ(f.true_oom, 1);
  EXPECT_EQ(f.false_fit, 1);
  EXPECT_DOUBLE_EQ(f.accuracy(), 0.5);
}

TEST(Statistics, Kendall) {
  EXPECT_DOUBLE_EQ(kendall_tau({{1, 10}, {2, 20}, {3, 30}}), 1);
  EXPECT_DOUBLE_EQ(kendall_tau({{1, 30}, {2, 20}, {3, 10}}), -1);
  EXPECT_NEAR(kendall_tau({{1, 10}, {2, 30}, {3, 20}}), 1.0 / 3, 1e-12);  // two pairs agree, one does not
  EXPECT_DOUBLE_EQ(kendall_tau({{1, 10}, {1, 20}}), 0);
}

TEST(Statistics, RegretIsTheThroughputLostByTheChoice) {
  // The prediction prefers the second, measured 5 s; the best took 4 s: 1 − 4/5.
  EXPECT_DOUBLE_EQ(top1_regret({{2, 4}, {1, 5}, {3, 9}}), 0.2);
  EXPECT_DOUBLE_EQ(top1_regret({{1, 4}, {2, 5}}), 0);
}

TEST(Statistics, GroupsOfOneDoNotRank) {
  const RankingSummary s = rank({{{1, 1}}, {{1, 4}, {2, 5}}, {{2, 4}, {1, 5}}});
  EXPECT_EQ(s.groups, 2);
  EXPECT_DOUBLE_EQ(s.kendall_tau, 0);
  EXPECT_DOUBLE_EQ(s.mean_top1_regret, 0.1);
  EXPECT_DOUBLE_EQ(s.max_top1_regret, 0.2);
}

}  // namespace
}  // namespace espalier::runs
