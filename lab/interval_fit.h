// SPDX-License-Identifier: Apache-2.0
// Fits intervals to residuals. src/planner/interval.h explains their meaning, lab/spread.h the statistics.
#pragma once

#include <string>
#include <vector>

#include "calibrate/corpus.h"
#include "lab/spread.h"
#include "planner/interval.h"

namespace espalier::lab {

struct Residual {
  double log_ratio = 0;  ///< log(measured / predicted)
  double weight = 1;     ///< calibrate::CorpusRow::weight
  std::string family, engine, device;
  std::string group{};  ///< inside the family: runs that share an error (model, GPU count)
};

struct IntervalOptions {
  double level = 0.8;
  /// Standard deviation, on the logarithmic scale, of the error that all runs of a cluster share. Clusters with the
  /// same engine and device differ by more than the runs within each; one runs 15 % slow on a single node without
  /// known cause. It is added in quadrature where the residuals do not include it.
  double between_sources = 0.12;
  double widening = 1.5;  ///< on the logarithmic scale, applied once where the device has no run
};

/// Selects which errors share a part: errors of a family if the coefficients were fitted without it, errors of a
/// group inside the family otherwise.
enum class Sharing { family, group };
std::vector<ErrorPoint> points_of(const std::vector<Residual>& residuals, Sharing sharing);

/// Returns v₀ and d₀ of the mean squares of the families, each weighted by its effective runs. Families with one run
/// are skipped. Fewer than two families give the mean square of all residuals, worth one run.
Variance prior_of_families(const std::vector<Residual>& residuals, Sharing sharing);

/// Fits an interval for every pair of engine and device that occurs, for every engine and every device alone, and in
/// general. `own`: residuals by engine and device, predicted with the engine known. `general`: residuals predicted
/// without anything from their source, the only data for an engine that never ran. `own_is_general`: `own` is of the
/// second kind too and already includes the differences between clusters.
planner::IntervalTable fit_intervals(const std::vector<Residual>& own, const std::vector<Residual>& general, bool own_is_general,
                                     const IntervalOptions& options);

}  // namespace espalier::lab
