// SPDX-License-Identifier: Apache-2.0
// Explains why nothing fits: the memory that the leanest configuration needs, and the nearest change that would fit.
#pragma once

#include <functional>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/question.h"
#include "search/phases.h"
#include "search/search.h"

namespace espalier::planner {

/// Returns the error of a search that found no plan. Stopped by its watch, the error names what was found until then.
Error nothing_fits(const Question& question, const search::SearchResult& found);

}  // namespace espalier::planner
