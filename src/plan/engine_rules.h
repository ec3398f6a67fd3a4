// SPDX-License-Identifier: Apache-2.0
// Defines the rules of engines: which configurations and plans an engine can run, by name and as a predicate. The
// restrictions that they read are data (EngineRuns of plan/engine.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/rules.h"

namespace espalier {

/// Returns the rules of this engine that the configuration breaks, by name ("MEG-VPP-M", …); empty if it can run it.
std::vector<RuleViolation> engine_violations(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                             const Training& training, const Strategy& strategy, const Schedule& schedule);
std::vector<RuleViolation> engine_violations(const EngineModel& engine, const RuleFacts& facts, const Strategy& strategy,
                                             const Schedule& schedule);
/// Returns whether the engine can run a configuration that is_legal(). It applies the same rules without a sentence
/// and does not allocate.
bool engine_allows(const EngineModel& engine, const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule);
/// Returns the differences between layers and between stages of a plan of sound structure that the engine does not
/// allow ("MEG-LAYERS"). A uniform plan breaks nothing.
std::vector<RuleViolation> engine_plan_violations(const EngineModel& engine, const Model& model, const Plan& plan);
/// Returns the names of this engine's rules with one sentence each.
std::vector<std::pair<std::string, std::string>> engine_rule_catalogue(const EngineModel& engine);

/// Describes one restriction, for a search that applies it as soon as the dimensions it reads are chosen.
struct EngineRule {
  std::string_view name;  ///< without the family prefix
  std::string_view sentence;
  DimensionSet reads = 0;
  Dimension fix = Dimension::tp;
  bool (*applies)(const EngineModel&) = nullptr;  ///< whether this engine has the rule at all
  bool (*holds)(const EngineModel&, const RuleFacts&, const Strategy&, const Schedule&) = nullptr;
  std::string (*text)(const EngineModel&, const RuleFacts&, const Strategy&, const Schedule&) = nullptr;
};
std::span<const EngineRule> engine_rules();

}  // namespace espalier
