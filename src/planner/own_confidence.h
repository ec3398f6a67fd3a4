// SPDX-License-Identifier: Apache-2.0
// Computes the confidence of a prediction under a user's own calibration.
//
// The interval of a prediction is t·low … t·high, both raised to the power w = √(1 + (d/2)²). d counts the doublings
// of the number of devices outside the range of the runs. As a prior, two doublings beyond the data widen the
// logarithm by 1.41.
#pragma once

#include <cstdint>
#include <optional>

#include "espalier/planner.h"
#include "job/calibration_file.h"

namespace espalier::planner {

/// Returns the interval and its basis for a predicted time; nullopt if the calibration holds no runs (fabric alone).
std::optional<Confidence> calibrated_confidence(const Calibration& calibration, double seconds, std::int64_t devices);

}  // namespace espalier::planner
