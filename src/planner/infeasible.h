// SPDX-License-Identifier: Apache-2.0
// When nothing fits: how much memory the leanest configuration needs, and the nearest change that would fit.
#pragma once

#include <functional>

#include "espalier/planner.h"
#include "plan/engine.h"
#include "search/search.h"

namespace espalier {

/// Looks through the space again, and through those of changed jobs; `interrupted` is polled (null: never) and ends that with what is known.
Error infeasible(const Job& job, const EngineModel& engine, const search::Outcome& found,
                 const std::function<bool()>& interrupted);

}  // namespace espalier
