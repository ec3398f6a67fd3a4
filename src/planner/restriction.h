// SPDX-License-Identifier: Apache-2.0
// Computes what the rules of an engine cost. The space of the job is searched again without the rules of the engine,
// including those of its layers and stages. Memory, kernels, communication and coefficients stay the engine's: price
// = T(with rules) / T(without) − 1.
//
// The space is the job's own: its search part, its memory margin, its limits. So only the rules differ. The figure is
// no comparison with another engine, and it is small for a job whose search part leaves little freedom.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Returns the price of the rules of `engine`, which must have rules. An error of the search options is returned. The
/// label is empty if nothing fits or the search is stopped.
Result<RestrictionPrice> restriction_price(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                           const PlannerResult& answer);

/// Returns the same engine without rules.
EngineModel without_rules(const EngineModel& engine);

}  // namespace espalier::planner
