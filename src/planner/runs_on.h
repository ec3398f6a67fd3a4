// SPDX-License-Identifier: Apache-2.0
// Determines which frameworks can run a plan, and what each could run instead. The engine `generic` restricts
// nothing, so its fastest plan may be one that no framework supports. An engineer then needs to know what a
// supported plan costs.
//
// An engine without rules of its own (family generic: jax, internevo, oneflow …) is unknown: Espalier has no list of
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

/// Holds the answer that an engine's own plan is compared with, and the settings of its search.
struct EngineQuestion {
  const Job& job;
  std::int64_t answer_ns = 0;
  const PlannerOptions& options;
  /// Holds good plans of the job under its own engine. Plans that an engine can run are tried first.
  const std::vector<search::Candidate>& good;
};

/// Lists the engines that are tried if no engine runs the answer: those with launch files that people use most.
inline constexpr std::string_view kUsualEngines[] = {"megatron-core",      "megatron-bridge", "torchtitan",
                                                     "torchtitan-compile", "deepspeed",       "fsdp2"};

/// Returns whether Espalier has rules for the engine.
bool has_rules(const EngineModel& engine);
/// Returns the sorted ids of the engine's rules that this plan breaks. The rules apply to all of its strategies and
/// to differences between its layers and stages. Requires has_rules.
std::vector<std::string> broken_rules(const EngineModel& engine, const Job& job, const Plan& plan);
/// Returns whether the plan breaks none of the engine's rules.
bool accepts(const EngineModel& engine, const Job& job, const Plan& plan);

/// Runs the certified search of uniform plans under another engine, with the job's margin and limits. `good` lists
/// configurations to try first; those outside the engine's space are skipped. Plans above `slowest_ns` are ignored.
search::Outcome search_with(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                            const std::vector<search::Candidate>& good, std::int64_t slowest_ns = INT64_MAX);

/// Finds the best plan of the job under another engine. It runs the certified search of uniform plans with that
/// engine's rules, memory and coefficients. The memory margin is that engine's default unless the job sets one.
EngineAnswer engine_answer(const EngineQuestion& q, const EngineModel& engine, std::int64_t slowest_ns = INT64_MAX);
/// Returns the fastest answer of kUsualEngines, the first on a tie; nullopt if none has a plan of at
/// most `slowest_ns`.
std::optional<EngineAnswer> runnable_plan(const EngineQuestion& q, std::int64_t slowest_ns = INT64_MAX);
/// Returns the answers of every engine of the catalogue except generic.
std::vector<EngineAnswer> all_engines(const EngineQuestion& q, const Plan& plan);

}  // namespace espalier::planner
