// SPDX-License-Identifier: Apache-2.0
// A user's calibration as a document for scripts, and for people. The file that jobs name is written by
// calibrate/user_calibration.h.
#pragma once

#include <cstddef>
#include <string>

#include "calibrate/user_calibration.h"

namespace espalier::report {

/// schema espalier.calibrate/1, for scripts.
/// `file`: where the calibration was written; empty: nowhere.
std::string to_json(const calibrate::UserCalibration& calibration, const std::string& file = "");
/// For people.
std::string to_text(const calibrate::UserCalibration& calibration,
                    std::size_t width = 0);  ///< no line longer than `width`; 0: as wide as it is

}  // namespace espalier::report
