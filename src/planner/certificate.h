// SPDX-License-Identifier: Apache-2.0
// The certificate of a search: what of the space was looked at, by which phase, and how far from the optimum the answer
// can be.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "planner/watch.h"
#include "search/phases.h"

namespace espalier::planner {

/// Of all phases together; something was found.
SearchSummary certificate_of(const Job& job, const EngineModel& engine, const search::SearchResult& all, const Watch& watch);

/// The certificate of the space as it stands for a plan that is not the fastest one found.
void restate(SearchSummary& s, std::int64_t iteration_ns);

/// What was asked for, so that a result can be searched again.
SearchRequest request_of(const Job& job, const PlannerOptions& options);

}  // namespace espalier::planner
