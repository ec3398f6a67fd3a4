// SPDX-License-Identifier: Apache-2.0
// Reports the gains of the options of the job's engine (data/engines.yaml, `options`) as two answers next to the
// plain one. The first has options that only change how the same numbers are computed. The second also has those that
// change the numbers. Each answer is the best plan of its own search. An option is kept only if the plan's step grows
// by over 2 % without it.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

/// Returns the name of the engine with these options.
std::string name_with(const EngineModel& engine, const std::vector<std::string>& options);
/// Returns whether one of the options changes what is computed.
bool changes_numerics(const EngineModel& engine, const std::vector<std::string>& options);

/// Returns the answers with options. It is empty if no option gains over 2 %, the engine has none, or its
/// coefficients are the user's own. `uniform` is the outcome of the search with the plain engine.
std::vector<OptionAnswer> option_answers(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                         const search::Outcome& uniform, std::int64_t answer_ns);

}  // namespace espalier::planner
