// SPDX-License-Identifier: Apache-2.0
// A finished plan is never trusted: the independent checker must agree with it before anyone sees it.
#pragma once

#include "espalier/planner.h"
#include "plan/program.h"

namespace espalier::planner {

/// Error (kind internal) with the first finding that fails.
Status verify(const Job& job, const Plan& plan, const Program& program);

}  // namespace espalier::planner
