// SPDX-License-Identifier: Apache-2.0
// How sure a prediction is: quantiles of log(measured/predicted) over runs that the coefficients had not seen, by engine and device
// (protocol G of docs/accuracy.md: the engine was known), mixed with those of all runs (protocol S: nothing of the source was known):
//     F(x) = ( 2·n_ed·F_ed(x) + n_e·F_e(x) + n_0·F_0(x) ) / (2·n_ed + n_e + n_0)        low, high: quantiles 10 % and 90 % of F
// F_ed of runs of this engine on this device, F_e of this engine on others, F_0 of all runs (each source alike, n_0 = 20 runs);
// n the runs, at most 60 from one source. Without any run on the device, and without any of the engine, the
// interval is widened by half on the logarithmic scale.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"

namespace espalier::planner {

struct Interval {
  double low = 0.75, high = 1.4;  ///< factors on the predicted time
  std::int64_t runs = 0;          ///< of this engine on this device
  std::string basis;              ///< "calibrated: h100-sxm-80gb, megatron-core, 143 runs"
};

/// data/calibration/intervals.yaml: (engine, device) -> interval; engine "" and device "" stand for any other.
using IntervalTable = std::map<std::pair<std::string, std::string>, Interval>;
Result<IntervalTable> read_intervals(std::string_view yaml, const std::string& where);
const IntervalTable& shipped_intervals();

/// The pair's own, else the engine's, else the device's, else what holds for anything.
Interval interval_for(const IntervalTable& table, const std::string& engine, const std::string& device);

}  // namespace espalier::planner
