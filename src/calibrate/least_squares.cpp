// SPDX-License-Identifier: Apache-2.0
#include "calibrate/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "base/parallel.h"

namespace espalier::calibrate {
namespace {

double inner(const FitParameter& p, double x) { return p.logarithmic ? std::log(x) : x; }
double outer(const FitParameter& p, double u) { return p.logarithmic ? std::exp(u) : u; }

/// Holds the problem in the inner scale u.
class ScaledLeastSquares {
 public:
  ScaledLeastSquares(const std::vector<FitParameter>& parameters, std::size_t rows, const ResidualFunction& function,
                     const FitOptions& options)
      : parameters_(parameters), rows_(rows), function_(function), options_(options) {
    ESPALIER_CHECK(options.weight.empty() || options.weight.size() == rows);
    for (const FitParameter& p : parameters) {
      ESPALIER_CHECK(p.low < p.high && p.start >= p.low && p.start <= p.high && (!p.logarithmic || p.low > 0));
      low_.push_back(inner(p, p.low));
      high_.push_back(inner(p, p.high));
    }
  }

  std::size_t size() const { return parameters_.size(); }
  double clamp(std::size_t j, double u) const { return std::clamp(u, low_[j], high_[j]); }
  bool at_bound(std::size_t j, double u) const { return u <= low_[j] || u >= high_[j]; }
  /// Returns whether descending along `gradient` would leave the range.
  bool pushed_out(std::size_t j, double u, double gradient) const {
    return (u <= low_[j] && gradient > 0) || (u >= high_[j] && gradient < 0);
  }

  std::vector<double> start() const {
    std::vector<double> u;
    for (const FitParameter& p : parameters_) u.push_back(inner(p, p.start));
    return u;
  }
  std::vector<double> values(const std::vector<double>& u) const {
    std::vector<double> x(size());
    for (std::size_t j = 0; j < size(); ++j)
      x[j] = std::clamp(outer(parameters_[j], u[j]), parameters_[j].low, parameters_[j].high);
    return x;
  }
  std::vector<double> residuals(const std::vector<double>& u) const {
    std::vector<double> r(rows_);
    function_(values(u), r);
    return r;
  }

  double weight(std::size_t i) const { return options_.weight.empty() ? 1.0 : options_.weight[i]; }
  /// Returns the weight of the squared residual that gives the slope of the Huber loss.
  double robust(std::size_t i, double r) const {
    const double h = options_.huber, size = std::abs(r);
    if (h <= 0 || size <= h) return weight(i);
    return weight(i) * (far() <= 0 || size <= far() * h ? h / size : far() * h * h / (size * size));
  }
  double far() const { return options_.far; }
  double influence_squared(std::size_t i, double r) const {
    const double h = options_.huber;
    const double w = robust(i, r) / std::max(weight(i), 1e-300);
    return h > 0 ? weight(i) * w * w * r * r : weight(i) * r * r;
  }
  double prior(std::size_t j, double u) const {
    const FitParameter& p = parameters_[j];
    return p.sigma > 0 ? (u - inner(p, p.prior)) / p.sigma : 0.0;
  }
  double precision(std::size_t j) const { return parameters_[j].sigma > 0 ? 1.0 / parameters_[j].sigma : 0.0; }
  double cost(const std::vector<double>& u, const std::vector<double>& r) const {
    double sum = 0;
    for (std::size_t i = 0; i < rows_; ++i) sum += weight(i) * robust_loss(r[i], options_.huber, far());
    for (std::size_t j = 0; j < size(); ++j) sum += prior(j, u[j]) * prior(j, u[j]);
    return sum;
  }

  /// Returns columns ∂r/∂u_j. The two points are kept inside the range.
  std::vector<std::vector<double>> jacobian(const std::vector<double>& u) const {
    std::vector<std::vector<double>> columns(size());
    base::parallel_for(size(), options_.threads, 1, [&](std::size_t j, int) {
      const double h = options_.difference * (parameters_[j].logarithmic ? 1.0 : high_[j] - low_[j]);
      std::vector<double> above = u, below = u;
      above[j] = clamp(j, u[j] + h);
      below[j] = clamp(j, u[j] - h);
      columns[j] = residuals(above);
      const std::vector<double> other = residuals(below);
      const double width = above[j] - below[j];
      for (std::size_t i = 0; i < rows_; ++i) columns[j][i] = (columns[j][i] - other[i]) / width;
    });
    return columns;
  }

 private:
  const std::vector<FitParameter>& parameters_;
  std::size_t rows_;
  const ResidualFunction& function_;
  const FitOptions& options_;
  std::vector<double> low_, high_;
};

/// Holds JᵀWJ + P and half the gradient of the cost.
struct Normal {
  std::vector<double> matrix, gradient;
};

Normal normal_equations(const ScaledLeastSquares& problem, const std::vector<double>& u, const std::vector<double>& r) {
  const std::size_t n = problem.size();
  const auto columns = problem.jacobian(u);
  Normal out{std::vector<double>(n * n), std::vector<double>(n)};
  std::vector<double> w(r.size());
  for (std::size_t i = 0; i < r.size(); ++i) w[i] = problem.robust(i, r[i]);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k <= j; ++k) {
      double sum = 0;
      for (std::size_t i = 0; i < r.size(); ++i) sum += w[i] * columns[j][i] * columns[k][i];
      out.matrix[j * n + k] = out.matrix[k * n + j] = sum;
    }
    double slope = problem.prior(j, u[j]) * problem.precision(j);
    for (std::size_t i = 0; i < r.size(); ++i) slope += w[i] * columns[j][i] * r[i];
    out.gradient[j] = slope;
    out.matrix[j * n + j] += problem.precision(j) * problem.precision(j);
  }
  return out;
}

/// Returns the damped step from u. Resting parameters keep their value. Empty when the equations cannot be solved.
std::vector<double> damped_step(const ScaledLeastSquares& problem, const Normal& normal, const std::vector<double>& u,
                                double lambda) {
  const std::size_t n = problem.size();
  std::vector<double> a = normal.matrix, b(n);
  for (std::size_t j = 0; j < n; ++j) {
    a[j * n + j] += lambda * std::max(normal.matrix[j * n + j], 1e-9);
    b[j] = -normal.gradient[j];
    if (!problem.pushed_out(j, u[j], normal.gradient[j])) continue;
    for (std::size_t k = 0; k < n; ++k) a[j * n + k] = a[k * n + j] = 0;
    a[j * n + j] = 1;
    b[j] = 0;
  }
  if (!solve_cholesky(a, b)) return {};
  std::vector<double> next = u;
  for (std::size_t j = 0; j < n; ++j) next[j] = problem.clamp(j, u[j] + b[j]);
  return next;
}

/// Returns square roots of the diagonal of s²(JᵀWJ + P)⁻¹ over the parameters that are not at a bound. s² is the mean
/// of ψ², where ψ is the slope of the loss. An outlier thus counts no more than a row at the threshold (Huber 1981,
/// ch. 7).
std::vector<double> standard_errors(const ScaledLeastSquares& problem, const Normal& normal, const std::vector<double>& u,
                                    const std::vector<double>& r) {
  const std::size_t n = problem.size();
  double squares = 0, rows = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    squares += problem.influence_squared(i, r[i]);
    rows += problem.weight(i);
  }
  const double variance = squares / std::max(1.0, rows - static_cast<double>(n));
  std::vector<double> out(n, 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    if (problem.at_bound(j, u[j])) continue;
    std::vector<double> a = normal.matrix, unit(n, 0.0);
    for (std::size_t k = 0; k < n; ++k) {
      a[k * n + k] += 1e-12;
      if (!problem.at_bound(k, u[k])) continue;
      for (std::size_t l = 0; l < n; ++l) a[k * n + l] = a[l * n + k] = 0;
      a[k * n + k] = 1;
    }
    unit[j] = 1;
    if (solve_cholesky(a, unit)) out[j] = std::sqrt(std::max(0.0, variance * unit[j]));
  }
  return out;
}

}  // namespace

bool solve_cholesky(std::vector<double>& a, std::vector<double>& b) {
  const std::size_t n = b.size();
  ESPALIER_CHECK(a.size() == n * n);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k <= j; ++k) {
      double sum = a[j * n + k];
      for (std::size_t l = 0; l < k; ++l) sum -= a[j * n + l] * a[k * n + l];
      if (j != k) {
        a[j * n + k] = sum / a[k * n + k];
      } else {
        if (!(sum > 0)) return false;
        a[j * n + j] = std::sqrt(sum);
      }
    }
  }
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t l = 0; l < j; ++l) b[j] -= a[j * n + l] * b[l];
    b[j] /= a[j * n + j];
  }
  for (std::size_t j = n; j-- > 0;) {
    for (std::size_t l = j + 1; l < n; ++l) b[j] -= a[l * n + j] * b[l];
    b[j] /= a[j * n + j];
  }
  return true;
}

double robust_loss(double residual, double huber, double far) {
  const double size = std::abs(residual);
  if (huber <= 0 || size <= huber) return size * size;
  if (far <= 0 || size <= far * huber) return 2 * huber * size - huber * huber;
  return huber * huber * (2 * far - 1 + 2 * far * std::log(size / (far * huber)));
}

FitResult least_squares(const std::vector<FitParameter>& parameters, std::size_t residuals, const ResidualFunction& function,
                        const FitOptions& options) {
  const ScaledLeastSquares problem(parameters, residuals, function, options);
  std::vector<double> u = problem.start(), r = problem.residuals(u);
  FitResult result;
  result.cost = problem.cost(u, r);
  double lambda = 1e-3;
  while (result.iterations < options.iterations && !result.converged) {
    const Normal normal = normal_equations(problem, u, r);
    bool moved = false;
    for (; lambda < 1e12 && !moved; lambda *= 10) {
      const std::vector<double> next = damped_step(problem, normal, u, lambda);
      if (next.empty()) continue;
      const std::vector<double> there = problem.residuals(next);
      const double cost = problem.cost(next, there);
      if (!(cost < result.cost)) continue;
      result.converged = result.cost - cost <= options.tolerance * result.cost;
      u = next;
      r = there;
      result.cost = cost;
      moved = true;
    }
    lambda = std::max(1e-12, lambda / 100);  // the loop has multiplied once more than needed
    if (!moved) result.converged = true;
    ++result.iterations;
  }
  result.values = problem.values(u);
  result.standard_error = standard_errors(problem, normal_equations(problem, u, r), u, r);
  for (std::size_t j = 0; j < problem.size(); ++j) result.at_bound.push_back(problem.at_bound(j, u[j]));
  result.residuals = r;
  return result;
}

}  // namespace espalier::calibrate
