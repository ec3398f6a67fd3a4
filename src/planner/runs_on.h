// SPDX-License-Identifier: Apache-2.0
// Which frameworks can run a plan, and what each could run instead. The engine `generic` restricts nothing, so its
// fastest plan may be one that no framework has; an engineer then needs to know what is lost by taking one that exists.
//
// An engine without rules of its own (family generic: jax, internevo, oneflow …) is unknown: Espalier does not know
// what it cannot run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/engines.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

/// What an engine's own plan is compared with, and how it is searched.
struct EngineQuestion {
  const Job& job;
  std::int64_t answer_ns = 0;
  const PlannerOptions& options;
  /// Good plans of the job under its own engine: those that an engine can run are tried first.
  const std::vector<search::Candidate>& good;
};

/// Tried in this order where no engine runs the answer.
inline constexpr std::string_view kUsualEngines[] = {"megatron-core", "torchtitan", "deepspeed"};

/// Whether Espalier knows what the engine cannot run.
bool has_rules(const EngineModel& engine);
/// Ids of the engine's rules that this very plan breaks, sorted: those of every strategy of it, and of what its layers
/// and stages differ in. Requires has_rules.
std::vector<std::string> broken_rules(const EngineModel& engine, const Job& job, const Plan& plan);
/// Whether it breaks none.
bool accepts(const EngineModel& engine, const Job& job, const Plan& plan);

/// The certified search of uniform plans under another engine, its margin and limits as of the job. `good`:
/// configurations to try first; those outside the engine's space are passed over.
search::Outcome search_with(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                            const std::vector<search::Candidate>& good);

/// The best plan of the job under another engine: the certified search of uniform plans with that engine's rules,
/// memory and coefficients, and its own default memory margin unless the job names one.
EngineAnswer engine_answer(const EngineQuestion& q, const EngineModel& engine);
/// Of the first of kUsualEngines that has a plan; nothing if none has.
std::optional<EngineAnswer> runnable_plan(const EngineQuestion& q);
/// Of every engine of the catalogue but generic.
std::vector<EngineAnswer> all_engines(const EngineQuestion& q, const Plan& plan);

}  // namespace espalier::planner
