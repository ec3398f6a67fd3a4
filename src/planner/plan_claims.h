// SPDX-License-Identifier: Apache-2.0
// States the planner's claims about a plan, in the form that check/ re-derives and compares.
#pragma once

#include "check/check.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"

namespace espalier::planner {

/// Returns the claims about a plan that has been timed.
check::Claims claims_of(const Job& job, const EngineModel& engine, const Timed& timed);
/// Times the plan and returns the claims about it.
Result<check::Claims> claims_of(const Job& job, const Plan& plan);

}  // namespace espalier::planner
