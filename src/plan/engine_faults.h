// SPDX-License-Identifier: Apache-2.0
// Decides whether an engine runs a plan: the only predicate of `runs on`, `check --engine`, `plan --engine` and
// `export`. It applies the engine's rules to every strategy of the plan (engine_rules.cpp, engine_assertions.cpp),
// and to the combination of its layers, stages and devices.
#pragma once

#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/rules.h"

namespace espalier {

/// Returns the rules of the engine that a plan of sound structure breaks, by id, each once; empty if the engine runs
/// it. An engine without rules (family generic) is unknown, so no plan breaks anything.
std::vector<RuleViolation> engine_faults(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                         const Training& training, const Plan& plan);
/// Returns the engine's own id of a rule: "MEG-PP-EVEN" for "PP-EVEN"; the name if the engine does not have it.
std::string engine_rule_id(const EngineModel& engine, std::string_view name);

}  // namespace espalier
