// SPDX-License-Identifier: Apache-2.0
// A user's calibration: coefficients of one engine on one device, and of fabric levels, fitted to the user's own
// measurements. espalier/calibrate.h writes such a file. Its values replace the shipped ones of the same name. Files
// have schema espalier.calibration/1 (docs/file-formats.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "espalier/job.h"
#include "espalier/result.h"

namespace espalier {

/// Reads YAML or JSON. Unknown keys, values outside their physical range and other schemas are errors that name their
/// place. `name` is the name of the calibration; empty: the file name of `where` without its extension.
Result<std::shared_ptr<const Calibration>> read_calibration(std::string_view text, const std::string& where,
                                                            const std::string& name = "");
Result<std::shared_ptr<const Calibration>> read_calibration_file(const std::string& path);

/// Returns why the calibration does not apply to this job (another device or engine); empty when it does.
std::string mismatch(const Calibration& calibration, const Job& job);
/// Sets engine_model, the fabric figures and `calibration` of the job. Fails with bad_input when the
/// calibration does not apply to the job.
Status use_calibration(Job& job, std::shared_ptr<const Calibration> calibration);

}  // namespace espalier
