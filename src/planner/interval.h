// SPDX-License-Identifier: Apache-2.0
// Computes the confidence interval of a prediction from x = log(measured/predicted) of runs that the coefficients
// had not seen:
//     low, high = exp(∓√((t·s)² + (1.28·τ)²))        t: 90 % of Student's t with d + d₀ degrees of freedom
// s² is the variance of the engine's runs, by side (protocol G of lab/accuracy-report.md: the engine was known). Runs
// on another device have half the weight. With its d effective runs, s² is shrunk to the variance v₀ with d₀ degrees
// of freedom. Sources have v₀ in common (protocol S: nothing of the source was known); see lab/spread.h. τ = 0.12 is
// the spread between clusters with the same engine and device. An engine without runs uses √v₀ and d₀ alone. Without
// any run on the device the interval is widened by half on the logarithmic scale.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::planner {

struct PredictionInterval {
  double low = 0.75, high = 1.4;  ///< factors on the predicted time
  std::int64_t runs = 0;          ///< runs of this engine on this device
  std::string basis;              ///< "calibrated: h100-sxm-80gb, megatron-core, 143 runs"
};

/// Maps (engine, device) to the intervals of data/calibration/intervals.yaml; engine "" and device "" stand
/// for any other.
using IntervalTable = std::map<std::pair<std::string, std::string>, PredictionInterval>;
Result<IntervalTable> read_intervals(std::string_view yaml, const std::string& where);
const IntervalTable& shipped_intervals();

/// Returns the interval of the pair; else the engine's, else the device's, else the one for anything.
PredictionInterval interval_for(const IntervalTable& table, const std::string& engine, const std::string& device);

}  // namespace espalier::planner
