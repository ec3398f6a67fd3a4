// SPDX-License-Identifier: Apache-2.0
// Holds the steps that `plan`, `estimate` and `simulate` share: preparing a job, and describing a plan
// with its prediction.
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

/// Rejects jobs that cannot be planned. The job must outlive the result.
Result<Prepared> prepare(const Job& job);

/// Returns a plan with its prediction and the figures of its operators. `spans`: the simulation records when every
/// instruction ran. `keep`, if given, receives program, costs and simulation.
Result<PlannerResult> describe(const Job& job, const EngineModel& engine, Plan plan, bool spans, Timed* keep);

/// Simulates a plan exactly as given, after the checks of simulate(). `keep`, if given, receives program, costs
/// and all spans.
Result<PlannerResult> simulated(const Job& job, const Plan& plan, Timed* keep);

}  // namespace espalier::planner
