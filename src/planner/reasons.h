// SPDX-License-Identifier: Apache-2.0
// Explains in sentences why the planner chose this plan. They are part of the result, which writes
// them into result.json.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::planner {

std::vector<std::string> reasons_of(const Job& job, const PlannerResult& result);

}  // namespace espalier::planner
