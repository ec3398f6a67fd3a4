// SPDX-License-Identifier: Apache-2.0
// Why this plan, in sentences. They are part of the result, which carries them into result.json.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::planner {

std::vector<std::string> reasons_of(const Job& job, const PlannerResult& result);

}  // namespace espalier::planner
