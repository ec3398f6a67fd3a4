// SPDX-License-Identifier: Apache-2.0
// Intervals from residuals; the mixture is described in src/planner/interval.h.
#pragma once

#include <string>
#include <vector>

#include "calibrate/corpus.h"
#include "planner/interval.h"

namespace espalier::lab {

struct Residual {
  double log_ratio = 0;  ///< log(measured / predicted)
  double weight = 1;     ///< calibrate::Row::weight
  std::string family, engine, device;
};

struct IntervalOptions {
  double level = 0.8;
  double general_runs = 20;  ///< n_0
  double most_runs = 60;     ///< of one family
  /// Clusters with one engine and device differ by more than the runs of each do (one runs 15 % slow on a single node, for no known cause):
  /// standard deviation of their common error on the logarithmic scale, added in quadrature.
  double between_sources = 0.12;
  double widening = 1.5;  ///< on the logarithmic scale, once where the device has no run and once where the engine has none
};

/// Every pair that occurs, every engine and every device alone, and the general case. `own`: residuals where the engine was known (F_ed and
/// F_e); `general`: where it was not (F_0, and all there is for an engine that never ran).
planner::IntervalTable fit_intervals(const std::vector<Residual>& own, const std::vector<Residual>& general,
                                     const IntervalOptions& options);

/// Weighted quantile: the smallest value at which the weight so far reaches q of all; 0 for none.
double weighted_quantile(std::vector<std::pair<double, double>> value_weight, double q);

}  // namespace espalier::lab
