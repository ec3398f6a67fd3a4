// SPDX-License-Identifier: Apache-2.0
// What the planner claims about a plan, in the form that check/ re-derives and compares.
#pragma once

#include "check/check.h"
#include "espalier/planner.h"

namespace espalier::planner {

Result<check::Claims> claims_of(const Job& job, const Plan& plan);

}  // namespace espalier::planner
