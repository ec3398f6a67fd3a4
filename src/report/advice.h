// SPDX-License-Identifier: Apache-2.0
// Advice on making a part of the iteration smaller, for this plan: taken from its simulated single changes
// (PlannerResult::changes), and silent where none of them makes the part smaller.
#pragma once

#include <string>

#include "espalier/planner.h"
#include "planner/time_parts.h"

namespace espalier::report {

/// A clause, or empty. Preference: a change that fits and shortens the step; else the one that takes most off the part,
/// with its price:
///   "vpp 1 -> 2 takes 0.120 s off it and 4.1 % off the step"
///   "pp 8 -> 4 takes 0.120 s off it, but the step grows by 2.0 %"
///   "micro_batch 1 -> 2 takes 0.120 s off it, but needs 85.1 GiB of 78.1 GiB"
std::string advice(const planner::TimePart& part, const PlannerResult& result);

}  // namespace espalier::report
