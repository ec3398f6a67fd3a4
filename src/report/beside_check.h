// SPDX-License-Identifier: Apache-2.0
// Parts of a result next to its plan, derived again where no search is needed.
//
//   beside         runs_on: engines whose rules accept the plan; losses and prices follow from the times that they
//                  compare
//   memory-margin  the margin of the search and what it rests on are those of the job
#pragma once

#include <vector>

#include "espalier/findings.h"
#include "espalier/planner.h"

namespace espalier::report {

/// `job`: of the plan, with the search that was asked for.
std::vector<Finding> check_beside(const Job& job, const PlannerResult& claimed);

}  // namespace espalier::report
