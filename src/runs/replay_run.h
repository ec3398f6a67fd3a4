// SPDX-License-Identifier: Apache-2.0
// Predicts records with measured durations of every stage and replica by replaying them (planner/replay.h), without a
// model.
#pragma once

#include <variant>

#include "espalier/measured_runs.h"
#include "espalier/validate.h"

namespace espalier::runs {

/// Predicts a record whose durations are all measured (RunMixture::measured_durations). The caller sets
/// `ranking_group`.
std::variant<RunResult, RunSkip> replay_run(const RunRecord& record);

}  // namespace espalier::runs
