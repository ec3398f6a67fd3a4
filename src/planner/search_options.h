// SPDX-License-Identifier: Apache-2.0
// Translates a user's request into the options of the search: threads, limits, rules and phases to leave out.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/watch.h"
#include "search/phases.h"

namespace espalier::planner {

/// Returns the options, or an error if a named rule or phase does not exist. `watch` must outlive the search.
Result<search::PhaseOptions> search_options(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                            Watch& watch);

}  // namespace espalier::planner
