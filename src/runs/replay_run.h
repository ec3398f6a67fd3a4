// SPDX-License-Identifier: Apache-2.0
// Records with measured durations of every stage and replica: predicted by replaying them (planner/replay.h), without a
// model.
#pragma once

#include <variant>

#include "espalier/measured_runs.h"
#include "espalier/validate.h"

namespace espalier::runs {

/// Needs a record whose durations are all measured (RunMixture::measured_durations). `ranking_group` is left to the
/// caller.
std::variant<RunResult, RunSkip> replay_run(const RunRecord& record);

}  // namespace espalier::runs
