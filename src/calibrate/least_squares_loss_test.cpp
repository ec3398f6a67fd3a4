// SPDX-License-Identifier: Apache-2.0
// Tests the loss, the weights and the standard errors of least_squares by hand, and any linear problem against its
// normal equations.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "base/invariant.h"
#include "calibrate/least_squares.h"

namespace espalier::calibrate::least_squares_loss_test {
namespace {

FitParameter plain(const char* name, double start, double low, double high) { return {name, start, low, high, false, start, 0}; }

/// Returns the loss of one residual: the cost before any step.
double loss(double residual, double huber, double far) {
  FitOptions options;
  options.huber = huber;
  options.far = far;
  options.iterations = 0;
  const auto f = [residual](std::span<const double>, std::span<double> r) { r[0] = residual; };
  return least_squares({plain("x", 0, -1, 1)}, 1, f, options).cost;
}

// With h = 1 and f = 3, the loss is r² to 1, then 2r − 1, from 3 on 5 + 6·ln(r/3). At both joints the pieces agree.
TEST(RobustLoss, ByHand) {
  EXPECT_DOUBLE_EQ(loss(0.5, 1, 3), 0.25);
  EXPECT_DOUBLE_EQ(loss(-2, 1, 3), 3);
  EXPECT_DOUBLE_EQ(loss(3, 1, 3), 5);
  EXPECT_NEAR(loss(3 * std::exp(1.0), 1, 3), 11, 1e-12);
  EXPECT_DOUBLE_EQ(loss(10, 1, 0), 19);
  EXPECT_DOUBLE_EQ(loss(10, 0, 0), 100);
}

// r² ≥ Huber ≥ the loss with the far part, and each grows with |r|.
RC_GTEST_PROP(RobustLoss, FarRowsPullLessAndNeverTheOtherWay, ()) {
  const double r = 0.01 * *rc::gen::inRange(1, 5000);
  const double h = 0.1 * *rc::gen::inRange(1, 40);
  const double f = 1 + 0.1 * *rc::gen::inRange(1, 40);
  RC_ASSERT(loss(r, h, 0) <= r * r * (1 + 1e-12));
  RC_ASSERT(loss(r, h, f) <= loss(r, h, 0) * (1 + 1e-12));
  RC_ASSERT(loss(1.01 * r, h, f) > loss(r, h, f));
}

// 1·(x − 0)² + 3·(x − 4)² has its minimum at x = 3.
TEST(LeastSquaresWeights, ARowCountsAsOftenAsItsWeight) {
  const auto f = [](std::span<const double> p, std::span<double> r) {
    r[0] = p[0];
    r[1] = p[0] - 4;
  };
  FitOptions options;
  options.weight = {1, 3};
  EXPECT_NEAR(least_squares({plain("x", 1, -10, 10)}, 2, f, options).values[0], 3, 1e-6);
  options.weight = {1, 0};
  EXPECT_NEAR(least_squares({plain("x", 1, -10, 10)}, 2, f, options).values[0], 0, 1e-6);
}

// The mean of 1, 2, 3 is 2; s² = (1 + 0 + 1)/(3 − 1) = 1, and its standard error √(s²/3).
TEST(StandardError, OfAMean) {
  const auto f = [](std::span<const double> p, std::span<double> r) {
    for (int i = 0; i < 3; ++i) r[static_cast<std::size_t>(i)] = p[0] - (i + 1);
  };
  const FitResult fit = least_squares({plain("x", 0, -10, 10)}, 3, f);
  EXPECT_NEAR(fit.values[0], 2, 1e-6);
  EXPECT_NEAR(fit.standard_error[0], std::sqrt(1.0 / 3), 1e-6);
  ASSERT_EQ(fit.residuals.size(), 3u);
  EXPECT_NEAR(fit.residuals[2], -1, 1e-6);
}

// A prior of sigma 1 at log 1 = 0 and one row at log(x) = 2 meet at log(x) = 1: x = e. Without data the result is the
// prior.
TEST(LogarithmicPrior, MeetsTheDataHalfWay) {
  const FitParameter x{"x", 2, 0.01, 100, true, 1, 1};
  const auto data = [](std::span<const double> p, std::span<double> r) { r[0] = std::log(p[0]) - 2; };
  EXPECT_NEAR(least_squares({x}, 1, data).values[0], std::exp(1.0), 1e-5);
  const auto none = [](std::span<const double>, std::span<double> r) { r[0] = 0; };
  EXPECT_NEAR(least_squares({x}, 1, none).values[0], 1, 1e-5);
}

TEST(LeastSquaresRange, ImpossibleRangesAreBugs) {
  const auto f = [](std::span<const double>, std::span<double> r) { r[0] = 0; };
  EXPECT_THROW((void)least_squares({plain("x", 2, -1, 1)}, 1, f), base::InternalError);  // starts outside
  EXPECT_THROW((void)least_squares({plain("x", 0, 1, -1)}, 1, f), base::InternalError);
  EXPECT_THROW((void)least_squares({{"x", 1, 0, 2, true, 1, 0}}, 1, f), base::InternalError);  // log 0
  FitOptions options;
  options.weight = {1, 1};
  EXPECT_THROW((void)least_squares({plain("x", 0, -1, 1)}, 1, f, options), base::InternalError);
}

TEST(LeastSquaresRange, EndsWithoutAStepWhereNothingHelps) {
  const auto flat = [](std::span<const double>, std::span<double> r) { r[0] = 1; };
  const FitResult fit = least_squares({plain("x", 0.5, 0, 1)}, 1, flat);
  EXPECT_TRUE(fit.converged);
  EXPECT_DOUBLE_EQ(fit.values[0], 0.5);
  EXPECT_DOUBLE_EQ(fit.cost, 1);
}

// Rows a_i·x + b_i·y = c_i are solved through normal equations by Cramer's rule.
RC_GTEST_PROP(LeastSquares, LinearProblemsAreSolvedExactly, ()) {
  std::vector<std::array<double, 3>> rows;
  for (int i = 0; i < 5; ++i)
    rows.push_back({0.1 * *rc::gen::inRange(-30, 30), 0.1 * *rc::gen::inRange(-30, 30), 0.1 * *rc::gen::inRange(-30, 30)});
  double aa = 0, ab = 0, bb = 0, ac = 0, bc = 0;
  for (const auto& [a, b, c] : rows) {
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ac += a * c;
    bc += b * c;
  }
  const double determinant = aa * bb - ab * ab;
  RC_PRE(determinant > 0.5);
  const double x = (ac * bb - bc * ab) / determinant;
  const double y = (aa * bc - ab * ac) / determinant;
  RC_PRE(std::fabs(x) < 90 && std::fabs(y) < 90);
  const auto f = [&](std::span<const double> p, std::span<double> r) {
    for (std::size_t i = 0; i < rows.size(); ++i) r[i] = rows[i][0] * p[0] + rows[i][1] * p[1] - rows[i][2];
  };
  FitOptions options;
  options.tolerance = 1e-12;
  const FitResult fit = least_squares({plain("x", 0, -100, 100), plain("y", 0, -100, 100)}, rows.size(), f, options);
  RC_ASSERT(std::fabs(fit.values[0] - x) < 1e-3 * (1 + std::fabs(x)));
  RC_ASSERT(std::fabs(fit.values[1] - y) < 1e-3 * (1 + std::fabs(y)));
}

}  // namespace
}  // namespace espalier::calibrate::least_squares_loss_test
