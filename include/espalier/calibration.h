// SPDX-License-Identifier: Apache-2.0
// A user's own calibration: coefficients of one engine on one device, and of fabric levels, fitted to own measurements
// (espalier/calibrate.h writes such a file). It replaces by name what ships. Files: schema espalier.calibration/1
// (docs/file-formats.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "espalier/job.h"
#include "espalier/result.h"

namespace espalier {

/// YAML or JSON text. Unknown keys, values outside their physical range and another schema are errors with their place.
/// `name`: what the calibration is called; empty: the file name of `where` without extension.
Result<std::shared_ptr<const Calibration>> read_calibration(std::string_view text, const std::string& where,
                                                            const std::string& name = "");
Result<std::shared_ptr<const Calibration>> read_calibration_file(const std::string& path);

/// Why the calibration is not for this job (another device or engine); empty: it is.
std::string mismatch(const Calibration& calibration, const Job& job);
/// Sets engine_model, fabric figures and `calibration` of the job. bad_input when it is made for something else.
Status use_calibration(Job& job, std::shared_ptr<const Calibration> calibration);

}  // namespace espalier
