// SPDX-License-Identifier: Apache-2.0
// The errors of predictions, and what was understood of one measured run, for people.
#pragma once

#include <cstddef>
#include <string>

#include "runs/validate.h"

namespace espalier::report {

/// schema espalier.validation/1
std::string to_json(const runs::Validation& validation);
/// `worst`: how many of the largest time errors to list.
/// No line longer than `width` columns; 0: as wide as it is.
std::string validation_text(const runs::Validation& validation, std::size_t worst, std::size_t width = 0);

std::string inspect_run(const runs::RunRecord& record, const runs::Mapping& mapping, std::size_t width = 0);
/// schema espalier.run-mapping/1
std::string inspect_run_json(const runs::RunRecord& record, const runs::Mapping& mapping);

}  // namespace espalier::report
