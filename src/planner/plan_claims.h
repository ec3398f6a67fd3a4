// SPDX-License-Identifier: Apache-2.0
// What the planner claims about a plan, in the form that check/ re-derives and compares.
#pragma once

#include "check/check.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"

namespace espalier::planner {

/// Claims of a plan that has been timed.
check::Claims claims_of(const Job& job, const EngineModel& engine, const Timed& timed);
/// Times the plan first.
Result<check::Claims> claims_of(const Job& job, const Plan& plan);

}  // namespace espalier::planner
