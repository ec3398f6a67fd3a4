// SPDX-License-Identifier: Apache-2.0
// Derives parts of a result next to its plan again, where no search is needed.
//
//   beside         runs_on names engines whose rules accept the plan. Losses and prices follow from the times that they
//                  compare.
//   memory-margin  The margin of the search and its basis are those of the job.
#pragma once

#include <vector>

#include "espalier/findings.h"
#include "espalier/planner.h"

namespace espalier::report {

/// Checks these parts. `job` is that of the plan, with the requested search.
std::vector<Finding> check_beside(const Job& job, const PlannerResult& claimed);

}  // namespace espalier::report
