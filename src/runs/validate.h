// SPDX-License-Identifier: Apache-2.0
// Declares validate_runs (espalier/validate.h) with any way of predicting.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "espalier/planner.h"
#include "espalier/validate.h"
#include "runs/mapping.h"

namespace espalier::runs {

using PredictFunction = std::function<Result<Prediction>(const Job&, const Strategy&, const Schedule&)>;

Validation validate_runs(const RunFile& file, const PredictFunction& predict, const ValidationOptions& options = {});

/// Returns the configuration that a record is predicted with: as mapped, and completed where only memory decides (see
/// MappedRun).
RunMapping settled_run(const RunRecord& record, const PredictFunction& predict);

/// Evaluates one record, for `inspect run`.
std::variant<RunResult, RunSkip> evaluate_run(const RunRecord& record, const PredictFunction& predict);

}  // namespace espalier::runs
