// SPDX-License-Identifier: Apache-2.0
// Intervals from residuals; what they stand for is described in src/planner/interval.h, the statistics in lab/spread.h.
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
  /// Clusters with one engine and device differ by more than the runs of each do (one runs 15 % slow on a single node,
  /// for no known cause):
  /// standard deviation of their common error on the logarithmic scale, added in quadrature where the residuals do not
  /// have it.
  double between_sources = 0.12;
  double widening = 1.5;  ///< on the logarithmic scale, once where the device has no run
};

/// Which errors share a part: those of a family, where the coefficients knew nothing of it; those of a group inside it,
/// where they did.
enum class Sharing { family, group };
std::vector<ErrorPoint> points_of(const std::vector<Residual>& residuals, Sharing sharing);

/// v₀ and d₀ of the mean squares of the families, each with the runs that it is worth; families of one run say nothing.
/// Of a single family its mean square, worth one run.
Variance prior_of_families(const std::vector<Residual>& residuals, Sharing sharing);

/// Every pair that occurs, every engine and every device alone, and the general case. `own`: residuals where the engine
/// was known, by engine and device; `general`: where nothing of the source was, all there is for an engine that never
/// ran. `own_is_general`: the first are of the second kind, and what clusters differ by is in them.
planner::IntervalTable fit_intervals(const std::vector<Residual>& own, const std::vector<Residual>& general, bool own_is_general,
                                     const IntervalOptions& options);

}  // namespace espalier::lab
