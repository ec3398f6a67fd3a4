// SPDX-License-Identifier: Apache-2.0
// What the rules of an engine cost: the space of the job is searched once more with the engine as it is (memory,
// kernels, communication, coefficients) but without its rules, those of its layers and stages included. price = T(with
// rules) / T(without) − 1.
//
// The space is the job's own: its search part, its memory margin, its limits. So nothing but the rules differs; the
// figure is no comparison with another engine, and on a job whose search part leaves little it is small for that
// reason.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// `engine` has rules. An error of the search options is returned; where nothing fits or the search is stopped the
/// label is empty.
Result<RestrictionPrice> restriction_price(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                           const PlannerResult& answer);

/// The same engine without rules.
EngineModel without_rules(const EngineModel& engine);

}  // namespace espalier::planner
