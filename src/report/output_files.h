// SPDX-License-Identifier: Apache-2.0
// Files that commands write. A file appears whole or not at all: it is written beside its place and then renamed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// Error kind usage: the user named the place.
Status write_file(const std::string& path, std::string_view bytes);

/// plan.json, result.json (without wall-clock values, so that equal answers are equal files) and, if `trace` is not empty,
/// timeline.json.gz. Makes the folder. Returns the paths written, or an Error.
Result<std::vector<std::string>> write_answer(const std::string& folder, const PlannerResult& result, const std::string& trace);

/// A Chrome trace at `path`, compressed when the name ends in ".gz".
Status write_trace_file(const std::string& path, const std::string& trace);

}  // namespace espalier::report
