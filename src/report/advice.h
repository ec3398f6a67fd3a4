// SPDX-License-Identifier: Apache-2.0
// What would make a part of the iteration smaller, for this plan: only what the plan leaves open is advised, and where several things are,
// the figures decide which one is named.
#pragma once

#include <string>

#include "espalier/planner.h"
#include "planner/time_parts.h"

namespace espalier::report {

/// A clause: "overlap_grad is off: reduce gradients beside the backward pass"; never empty.
std::string advice(const planner::TimePart& part, const PlannerResult& result);

}  // namespace espalier::report
