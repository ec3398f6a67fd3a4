// SPDX-License-Identifier: Apache-2.0
// What a user asks of a search, as the search takes it: threads, limits, rules and phases to leave out.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/watch.h"
#include "search/phases.h"

namespace espalier::planner {

/// Error where a rule or a phase of that name does not exist. `watch` outlives the search.
Result<search::PhaseOptions> search_options(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                            Watch& watch);

}  // namespace espalier::planner
