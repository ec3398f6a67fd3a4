// SPDX-License-Identifier: Apache-2.0
// Why strategies differ between the layers of an answer: what it treats unlike the best uniform plan, and what an even
// split would cost. Every figure is one that the search simulated or that stands in the plans.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::planner {

/// Sentences about a plan that is not uniform; the best uniform plan is compared where the alternatives hold it.
std::vector<std::string> layerwise_reasons(const PlannerResult& result);

}  // namespace espalier::planner
