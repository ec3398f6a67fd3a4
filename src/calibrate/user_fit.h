// SPDX-License-Identifier: Apache-2.0
// Adapts few coefficients to few runs of a user. The coefficients of src/plan/coefficients.h start from the engine's
// shipped values and are held there by their priors:
//
//   minimise over θ   Σ_i w_i H( log(t_i(θ)/T_i) / σ_i ) + Σ_j ((θ_j − shipped_j)/σ_j)².
//
// t is predicted, T measured, and σ_i² = noise² + resolution². H is Huber's loss (threshold 2), w_i is one over the
// repeats of a configuration, and θ is a logarithm for multipliers. The posterior has covariance (JᵀWJ + diag
// 1/σ_j²)⁻¹ with the noise taken as known, since few runs that happen to agree prove little. A coefficient whose
// sigma stays above 0.9 of the prior's is not identified by these runs. It keeps the shipped value, and the others
// are fitted without it. Slopes are taken at the shipped values and one sigma above them, since some terms appear
// only past a threshold, and once more at the solution.
//
// The error is leave-one-configuration-out (ten folds above 20 configurations), with values refitted in each fold.
// The choice of free coefficients is made once, on all runs. Fewer than three configurations are not cross-validated:
// a fit to one of two is no evidence about the rest.
// The interval at 80 % is the shipped one for the engine and device when nothing was held out. Otherwise it pools
// log(T/t) of the held-out runs with a prior, s² = (ν₀σ₀² + Σ w e²)/(ν₀ + Σ w), ν₀ = 4 runs, σ₀ = 0.08. It is
// Student's t with ν₀ + Σ w degrees of freedom (the normal–scaled-inverse-χ² model; Gelman et al. 2013, ch. 2.6).
#pragma once

#include <string>
#include <vector>

#include "calibrate/user_runs.h"
#include "plan/coefficients.h"
#include "runs/run_statistics.h"

namespace espalier::calibrate {

struct ParameterFit {
  std::string name, meaning;
  double prior = 0, value = 0;
  double prior_sigma = 0, sigma = 0;  ///< sigma of the logarithm, or in the coefficient's unit when additive
  bool additive = false, identified = false;
  /// Returns how far the value moved from the shipped one, in sigmas of the prior (on the fitted scale).
  [[nodiscard]] double widths() const;
};

struct RunFit {
  std::string id, label;
  std::int64_t devices = 0;
  double measured_s = 0;
  double before_s = 0;    ///< with the shipped coefficients
  double held_out_s = 0;  ///< by coefficients fitted without this configuration; 0: no cross-validation
  double fitted_s = 0;
};

struct UserFit {
  FrameworkCoefficients coefficients;
  std::vector<ParameterFit> parameters;  ///< in the order of coefficient_fields()
  std::vector<RunFit> runs;
  std::int64_t configurations = 0;
  std::string cross_validation;  ///< description of the held-out runs; begins with "none" without any
  ErrorSummary before, held_out, fitted;
  double level = 0.8, low = 1, high = 1;  ///< interval, factors of the prediction
  std::string interval_basis;             ///< basis of the interval, in words
  std::int64_t devices_low = 0, devices_high = 0;
  std::vector<std::string> warnings;
};

/// Fits the coefficients. `before_s` holds predictions with the shipped ones, in the order of the rows (the rows'
/// fabric may have been adapted since). All rows have the engine `engine`. The result is deterministic for any number
/// of threads.
UserFit fit_user(const std::vector<UserRow>& rows, const std::vector<double>& before_s, const std::string& engine, int threads);

}  // namespace espalier::calibrate
