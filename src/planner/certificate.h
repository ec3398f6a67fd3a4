// SPDX-License-Identifier: Apache-2.0
// Builds the certificate of a search: which part of the space each phase covered, and how far from the optimum the
// answer can be.
#pragma once

#include "espalier/planner.h"
#include "planner/choice.h"
#include "planner/question.h"
#include "search/phases.h"

namespace espalier::planner {

/// Returns the certificate of all phases together for the plan that was chosen, and the request that led to it, so that
/// a result can be searched again. The search found a plan.
SearchSummary certificate_of(const Question& question, const search::SearchResult& found, const Choice& choice);

}  // namespace espalier::planner
