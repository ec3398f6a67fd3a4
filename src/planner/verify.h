// SPDX-License-Identifier: Apache-2.0
// Verifies a finished plan: the independent checker must agree with it before it is returned.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/prediction.h"

namespace espalier::planner {

/// Returns the first finding that fails as an error of kind internal. The prediction of the plan was made from `timed`.
Status verify(const Job& job, const EngineModel& engine, const Plan& plan, const Timed& timed);

}  // namespace espalier::planner
