// SPDX-License-Identifier: Apache-2.0
// Explains why strategies differ between the layers of an answer: where it departs from the best uniform plan, and
// what an even split would cost. Every figure was simulated by the search or is part of the plans.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::planner {

/// Returns sentences about a plan that is not uniform. They compare it with the best uniform plan if the
/// alternatives hold one.
std::vector<std::string> layerwise_reasons(const PlannerResult& result);

}  // namespace espalier::planner
