// SPDX-License-Identifier: Apache-2.0
// Implements damped least squares with bounds, priors and a robust loss. Every fit of this project uses it.
//
//   minimise over u   Σ w_i ρ(r_i(x)) + Σ_j ((u_j − p_j)/σ_j)²      x_j = exp(u_j) for logarithmic parameters, else u_j
//
//       ρ(r) = r² for |r| ≤ h, else 2h|r| − h² (Huber 1964). A row that the form cannot describe pulls with bounded
//       force. From f·h on, ρ(r) = h²·(2f − 1 + 2f·ln(|r|/(f·h))). An outlier (another state of the machine) hardly
//       pulls, and the slope has no step.
//
//   step              (JᵀWJ + P + λ·diag) δ = −g, by Cholesky. λ falls after a step that helps and grows after one that
//                     does not (Levenberg 1944, Marquardt 1963). Parameters at a bound that the gradient pushes outward
//                     rest.
//
// The Jacobian uses central differences. The result is deterministic: columns are independent, and sums run in index
// order whatever `threads` is.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace espalier::calibrate {

/// Describes one fitted scalar. `low` ≤ `start`, `prior` ≤ `high` is the physically possible range.
struct FitParameter {
  std::string name;
  double start = 1;
  double low = 0, high = 1;
  /// This fits log(x), for positive scale-like parameters (low > 0). It is false for shares and times that may be 0.
  bool logarithmic = true;
  double prior = 1;  ///< its value without data
  /// This is the standard deviation of the prior in log(x), or in x when not logarithmic; 0 means no prior.
  double sigma = 0;
};

/// Fills residuals from parameters (in their own units). It must be thread-safe when threads > 1, and give finite
/// values.
using ResidualFunction = std::function<void(std::span<const double> parameters, std::span<double> residuals)>;

/// Above this share of the prior sigma, a posterior sigma means that the data do not identify the parameter.
inline constexpr double kIdentified = 0.9;

struct FitOptions {
  double huber = 0;            ///< h, in units of the residual; 0 = plain squares
  double far = 0;              ///< f, thresholds from which on the loss is a logarithm; 0 = never
  int iterations = 60;         ///< maximum number of accepted steps
  double tolerance = 1e-7;     ///< ends when an accepted step lowers the cost by less than this fraction
  double difference = 1e-4;    ///< step of the differences: in log(x), or in units of high − low
  int threads = 1;             ///< columns of the Jacobian computed in parallel
  std::vector<double> weight;  ///< w_i; empty = all 1
};

struct FitResult {
  std::vector<double> values;          ///< in the order of the parameters, in their own units
  std::vector<double> standard_error;  ///< error of u: relative for logarithmic parameters; 0 at a bound
  std::vector<bool> at_bound;
  std::vector<double> residuals;  ///< at `values`
  double cost = 0;                ///< the minimised sum
  int iterations = 0;
  bool converged = false;
};

/// Returns ρ(r): r² up to h (0: always), then linear, from f·h on (0: never) a logarithm.
double robust_loss(double residual, double huber, double far);

FitResult least_squares(const std::vector<FitParameter>& parameters, std::size_t residuals, const ResidualFunction& function,
                        const FitOptions& options = {});

/// Solves A x = b for a symmetric positive definite A (row-major, n × n). Returns false when it is not. A is
/// overwritten.
bool solve_cholesky(std::vector<double>& a, std::vector<double>& b);

}  // namespace espalier::calibrate
