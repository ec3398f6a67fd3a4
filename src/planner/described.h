// SPDX-License-Identifier: Apache-2.0
// What `plan`, `estimate` and `simulate` share: a job made ready, and a plan with its prediction.
#pragma once

#include <chrono>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"
#include "search/search.h"

namespace espalier::planner {

struct Prepared {
  const EngineModel* engine;
  search::Problem problem;
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Refuses what cannot be planned. The job outlives the result.
Result<Prepared> prepare(const Job& job);

/// A plan with its prediction and the figures of its operators. `spans`: the simulation records when every instruction
/// ran. `keep`, if given, receives program, costs and simulation.
Result<PlannerResult> describe(const Job& job, const EngineModel& engine, Plan plan, bool spans, Timed* keep);

/// A plan as it stands, after the checks of simulate(); `keep`, if given, receives program, costs and all spans.
Result<PlannerResult> simulated(const Job& job, const Plan& plan, Timed* keep);

}  // namespace espalier::planner
