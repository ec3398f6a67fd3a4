// SPDX-License-Identifier: Apache-2.0
// What `plan` says beside its answer: which engines run it and what the nearest one could do, the batch that would
// divide better, the fastest plan where the simplest was asked for.
#pragma once

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

struct AnswerContext {
  const Job& job;
  const PlannerOptions& options;
  const search::Outcome& uniform;  ///< the search of uniform plans
};

/// `room`: the job on the memory that was searched.
void add_beside(const Job& room, const EngineModel& engine, search::Evaluator& evaluator, const search::Options& how,
                const AnswerContext& context, PlannerResult& result);

/// The fastest plan as the first alternative.
void add_fastest(const Job& job, const EngineModel& engine, const Plan& fastest, PlannerResult& result);

}  // namespace espalier::planner
