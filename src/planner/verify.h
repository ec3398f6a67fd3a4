// SPDX-License-Identifier: Apache-2.0
// A finished plan is never trusted: the independent checker must agree with it before anyone sees it.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"

namespace espalier::planner {

/// Error (kind internal) with the first finding that fails. `timed` is what the prediction of the plan was made from.
Status verify(const Job& job, const EngineModel& engine, const Plan& plan, const Timed& timed);

}  // namespace espalier::planner
