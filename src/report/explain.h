// SPDX-License-Identifier: Apache-2.0
// Why this plan: the bottleneck, what each runner-up and baseline loses, and which rule removed how much of the space.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// What limits the iteration, in sentences, largest first: time, then memory.
std::vector<std::string> bottlenecks(const PlannerResult& result);
/// No line longer than `width` columns; 0: as wide as it is.
std::string explain(const PlannerResult& result, std::size_t width = 0);
/// schema espalier.explanation/1
std::string explain_json(const PlannerResult& result);

}  // namespace espalier::report
