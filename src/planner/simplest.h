// SPDX-License-Identifier: Apache-2.0
// Finds the simplest plan that is nearly as fast as the fastest. The plan may take at most (1 + within) times as long
// as the answer. Among the job's plans that do, it has the fewest dimensions (plan/dimensions_used.h). Ties go to the
// fastest, then to the first by canonical text.
//
// Candidates are all uniform configurations of the space (with the operator partitions that were offered) and the
// answer itself. Other layer-wise plans are not considered, since mixing strategies costs a dimension. The branch and
// bound runs under another order (search/preference.h). So "simplest" is proven, and not picked from the plans that
// happened to be simulated.
#pragma once

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

struct SimplestQuestion {
  const Plan* answer = nullptr;  ///< the fastest plan found
  std::int64_t best_ns = 0;      ///< its time
  double within = 0.01;
  /// Holds the search of uniform configurations. If it is complete, "simplest" can be proven.
  const search::Outcome* found = nullptr;
};

Simplest simplest_plan(const Job& job, const EngineModel& engine, const search::Problem& problem, search::Evaluator& evaluator,
                       search::Options how, const SimplestQuestion& question);

}  // namespace espalier::planner
