// SPDX-License-Identifier: Apache-2.0
// Advises how to make a part of this plan's iteration smaller. The advice comes from the plan's simulated single
// changes (PlannerResult::changes), and is empty where none of them makes the part smaller.
#pragma once

#include <string>

#include "espalier/planner.h"
#include "planner/time_parts.h"

namespace espalier::report {

/// Returns a clause, or empty. It prefers a change that fits and shortens the step. Otherwise it takes the change
/// that reduces the part most, with its price. Examples are
///   "vpp 1 -> 2 takes 0.120 s off it and 4.1 % off the step",
///   "pp 8 -> 4 takes 0.120 s off it, but the step grows by 2.0 %",
///   "micro_batch 1 -> 2 takes 0.120 s off it, but needs 85.1 GiB of 78.1 GiB".
std::string advice(const planner::TimePart& part, const PlannerResult& result);

}  // namespace espalier::report
