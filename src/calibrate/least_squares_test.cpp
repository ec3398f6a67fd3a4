// SPDX-License-Identifier: Apache-2.0
#include "calibrate/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace espalier::calibrate::least_squares_test {
namespace {

FitParameter plain(const char* name, double start, double low, double high) { return {name, start, low, high, false, start, 0}; }

TEST(LeastSquares, CholeskySolvesByHand) {
  // [4 2; 2 3] x = [10; 9]  =>  x = (1.5, 2)
  std::vector<double> a{4, 2, 2, 3}, b{10, 9};
  ASSERT_TRUE(solve_cholesky(a, b));
  EXPECT_NEAR(b[0], 1.5, 1e-12);
  EXPECT_NEAR(b[1], 2.0, 1e-12);
  std::vector<double> indefinite{1, 2, 2, 1}, c{1, 1};
  EXPECT_FALSE(solve_cholesky(indefinite, c));
}

TEST(LeastSquares, LineThroughThreePoints) {
  // y = 1, 3, 5 at x = 0, 1, 2 has intercept 1, slope 2.
  const auto f = [](std::span<const double> p, std::span<double> r) {
    for (int i = 0; i < 3; ++i) r[i] = p[0] + p[1] * i - (1 + 2.0 * i);
  };
  const FitResult fit = least_squares({plain("a", 0, -10, 10), plain("b", 0, -10, 10)}, 3, f);
  EXPECT_TRUE(fit.converged);
  EXPECT_NEAR(fit.values[0], 1, 1e-6);
  EXPECT_NEAR(fit.values[1], 2, 1e-6);
  EXPECT_NEAR(fit.cost, 0, 1e-10);
}

TEST(LeastSquares, PriorAndDataMeetHalfWay) {
  // (x − 2)² + ((x − 0)/1)² has its minimum at x = 1.
  const auto f = [](std::span<const double> p, std::span<double> r) { r[0] = p[0] - 2; };
  FitParameter x = plain("x", 0.5, -10, 10);
  x.prior = 0;
  x.sigma = 1;
  EXPECT_NEAR(least_squares({x}, 1, f).values[0], 1, 1e-6);
}

TEST(LeastSquares, LogarithmicParameterIsFittedInItsOwnUnits) {
  // log(x·8 / 24) = 0 at x = 3
  const auto f = [](std::span<const double> p, std::span<double> r) { r[0] = std::log(p[0] * 8 / 24); };
  const FitResult fit = least_squares({{"x", 1, 0.01, 100, true, 1, 0}}, 1, f);
  EXPECT_NEAR(fit.values[0], 3, 1e-6);
}

TEST(LeastSquares, StopsAtABoundAndFitsTheRest) {
  // (a − 5)² + (a + b − 6)² with a ≤ 2 has its minimum at a = 2, b = 4.
  const auto f = [](std::span<const double> p, std::span<double> r) {
    r[0] = p[0] - 5;
    r[1] = p[0] + p[1] - 6;
  };
  const FitResult fit = least_squares({plain("a", 0, -2, 2), plain("b", 0, -10, 10)}, 2, f);
  EXPECT_DOUBLE_EQ(fit.values[0], 2);
  EXPECT_NEAR(fit.values[1], 4, 1e-6);
  EXPECT_TRUE(fit.at_bound[0]);
  EXPECT_FALSE(fit.at_bound[1]);
  EXPECT_EQ(fit.standard_error[0], 0);
}

TEST(LeastSquares, HuberBoundsThePullOfOneRow) {
  // Nine rows are at 0 and one at 100. Squares give 10. Huber with h = 1 gives 9·x = 1, x = 1/9.
  const auto f = [](std::span<const double> p, std::span<double> r) {
    for (int i = 0; i < 10; ++i) r[i] = p[0] - (i == 9 ? 100 : 0);
  };
  EXPECT_NEAR(least_squares({plain("x", 5, -200, 200)}, 10, f).values[0], 10, 1e-5);
  FitOptions robust;
  robust.huber = 1;
  EXPECT_NEAR(least_squares({plain("x", 5, -200, 200)}, 10, f, robust).values[0], 1.0 / 9, 1e-4);
  robust.far = 3;  // a logarithm from 3 on: slope 3 / 100 at the outlier, 9·x = 0.03
  EXPECT_NEAR(least_squares({plain("x", 1, -200, 200)}, 10, f, robust).values[0], 0.03 / 9, 1e-4);
}

TEST(LeastSquares, SameAnswerWhateverTheThreads) {
  const auto f = [](std::span<const double> p, std::span<double> r) {
    for (int i = 0; i < 40; ++i) r[i] = p[0] * std::exp(-p[1] * i) + p[2] - std::cos(i);
  };
  const std::vector<FitParameter> p{plain("a", 1, -5, 5), plain("b", 0.1, 0, 2), plain("c", 0, -5, 5)};
  FitOptions many;
  many.threads = 3;
  EXPECT_EQ(least_squares(p, 40, f).values, least_squares(p, 40, f, many).values);
}

}  // namespace
}  // namespace espalier::calibrate::least_squares_test
