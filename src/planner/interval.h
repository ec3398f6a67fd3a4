// SPDX-License-Identifier: Apache-2.0
// How sure a prediction is, from log(measured/predicted) = x of runs that the coefficients had not seen:
//     low, high = exp(∓√((t·s)² + (1.28·τ)²))        t: 90 % of Student's t with d + d₀ degrees of freedom
// s² of the engine's runs by side (protocol G of docs/accuracy.md: the engine was known), those on another device with
// half the weight, shrunk with their d effective runs to the variance v₀, d₀ that sources have in common (protocol S:
// nothing of the source was known); lab/spread.h. τ 0.12: what clusters with one engine and device differ by. Of an
// engine without runs √v₀ and d₀ alone. Without any run on the device the interval is widened by half on the
// logarithmic scale.
#pragma once

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
  std::int64_t runs = 0;          ///< of this engine on this device
  std::string basis;              ///< "calibrated: h100-sxm-80gb, megatron-core, 143 runs"
};

/// data/calibration/intervals.yaml: (engine, device) -> interval; engine "" and device "" stand for any other.
using IntervalTable = std::map<std::pair<std::string, std::string>, PredictionInterval>;
Result<IntervalTable> read_intervals(std::string_view yaml, const std::string& where);
const IntervalTable& shipped_intervals();

/// The pair's own, else the engine's, else the device's, else what holds for anything.
PredictionInterval interval_for(const IntervalTable& table, const std::string& engine, const std::string& device);

}  // namespace espalier::planner
