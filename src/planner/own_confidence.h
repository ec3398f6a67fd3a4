// SPDX-License-Identifier: Apache-2.0
// How sure a prediction is under a user's own calibration.
//
// Interval of a prediction: t·low … t·high, both taken to the power w = √(1 + (d/2)²), d = doublings of the number of
// devices outside the range that the runs covered (prior: two doublings beyond the data widen the logarithm by 1.41).
#pragma once

#include <cstdint>
#include <optional>

#include "espalier/planner.h"
#include "job/calibration_file.h"

namespace espalier::planner {

/// The interval and its basis for a predicted time; nullopt when the calibration holds no runs (fabric alone).
std::optional<Confidence> calibrated_confidence(const Calibration& calibration, double seconds, std::int64_t devices);

}  // namespace espalier::planner
