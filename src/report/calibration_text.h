// SPDX-License-Identifier: Apache-2.0
// Writes a user's calibration as a document for scripts, and as text for people. calibrate/user_calibration.h writes
// the file that jobs name.
#pragma once

#include <cstddef>
#include <string>

#include "calibrate/user_calibration.h"

namespace espalier::report {

/// Writes schema espalier.calibrate/1, for scripts. `file` is where the calibration was written; empty where it was
/// not.
std::string to_json(const calibrate::UserCalibration& calibration, const std::string& file = "");
/// Writes the text for people.
std::string to_text(const calibrate::UserCalibration& calibration,
                    std::size_t width = 0);  ///< no line is longer than `width`; 0: lines are not wrapped

}  // namespace espalier::report
