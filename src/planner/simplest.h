// SPDX-License-Identifier: Apache-2.0
// The simplest plan that is nearly as fast as the fastest: of all plans of the job's space that take at most (1 +
// within) times as long as the answer, the one of fewest dimensions (plan/dimensions_used.h), then the fastest, then
// the first by canonical text.
//
// Candidates are all uniform configurations of the space (with the operator partitions that were offered) and the
// answer itself; of layer-wise plans other than the answer none is looked at, since mixing strategies costs a
// dimension. Found by the branch and bound under another order (search/preference.h), so that "simplest" is proven and
// not picked from what happened to be simulated.
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
  const search::Outcome* found = nullptr;  ///< the search of uniform configurations; complete: "simplest" can be proven
};

Simplest simplest_plan(const Job& job, const EngineModel& engine, const search::Problem& problem, search::Evaluator& evaluator,
                       search::Options how, const SimplestQuestion& question);

}  // namespace espalier::planner
