// SPDX-License-Identifier: Apache-2.0
// Gains of the options of the job's engine (data/engines.yaml, `options`): two answers next to the plain one. The first
// has options that only change how the same numbers are computed, the second also those that change the numbers. Each
// is the best plan of a search of its own, and keeps an option only if the step of its plan grows by over 2 % without
// it.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

/// The name of the engine with these options.
std::string name_with(const EngineModel& engine, const std::vector<std::string>& options);
/// Whether one of them changes what is computed.
bool changes_numerics(const EngineModel& engine, const std::vector<std::string>& options);

/// `uniform`: what the search of the plain engine found. Empty: no option gains over 2 %, the engine has none, or its
/// coefficients are a user's own.
std::vector<OptionAnswer> option_answers(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                         const search::Outcome& uniform, std::int64_t answer_ns);

}  // namespace espalier::planner
