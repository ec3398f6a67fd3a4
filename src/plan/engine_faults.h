// SPDX-License-Identifier: Apache-2.0
// Whether an engine runs a plan: the one predicate of `runs on`, `check --engine`, `plan --engine` and `export`. It
// asks the rules of the engine for every strategy of the plan (engine_rules.cpp, engine_assertions.cpp), and what its
// layers, stages and devices have in common.
#pragma once

#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/rules.h"

namespace espalier {

/// Rules of the engine that a plan of sound structure breaks, by id, each once; empty: the engine runs it. Nothing is
/// known of an engine without rules (family generic), so that nothing is broken.
std::vector<RuleViolation> engine_faults(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                         const Training& training, const Plan& plan);
/// The engine's own id of a rule: "MEG-PP-EVEN" of "PP-EVEN"; the name where the engine does not have it.
std::string engine_rule_id(const EngineModel& engine, std::string_view name);

}  // namespace espalier
