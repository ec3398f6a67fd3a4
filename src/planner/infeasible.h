// SPDX-License-Identifier: Apache-2.0
// When nothing fits: how much memory the leanest configuration needs, and the nearest change that would fit.
#pragma once

#include <functional>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/watch.h"
#include "search/phases.h"
#include "search/search.h"

namespace espalier::planner {

/// Stopped by the watch, it says what it has found until then.
Error infeasible(const Job& job, const EngineModel& engine, const search::Outcome& found, Watch& watch);

/// Where plans may lie on groups of unlike devices.
Error nothing_fits(const Job& job, const search::SearchResult& found, Watch& watch);

}  // namespace espalier::planner
