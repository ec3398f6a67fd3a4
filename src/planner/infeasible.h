// SPDX-License-Identifier: Apache-2.0
// When nothing fits: how much memory the leanest configuration needs, and the nearest change that would fit.
#pragma once

#include "espalier/planner.h"
#include "plan/engine.h"
#include "search/search.h"

namespace espalier {

Error infeasible(const Job& job, const EngineModel& engine, const search::Outcome& found);

}  // namespace espalier
