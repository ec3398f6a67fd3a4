// SPDX-License-Identifier: Apache-2.0
// What a job, a configuration and a plan must keep before anything is computed, each offence as an Error.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "plan/rules.h"

namespace espalier::planner {

/// "RULE: what it says; RULE: …", without the hints: the hint of a rule is about that rule alone, and what it names may
/// break another one.
std::string named_rules(const std::vector<RuleViolation>& broken);
/// Every rule of the space and of the engine that the configuration breaks, as one Error; nothing when legal.
Status illegal(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);
/// A plan file must be for this job: same world, same layers.
Status plan_fits_job(const Job& job, const Plan& plan);
/// Whether plans of the job may lie on groups of unlike devices: as the job says, else on several node groups.
bool any_devices(const Job& job);
/// Refuses search.devices: equal on a cluster of several node groups, and any or all for an engine whose stages must be
/// alike.
Status device_choice(const Job& job, const EngineModel& engine);
/// Refuses restrictions of dimensions that a search on unlike devices does not vary.
Status searched_pins(const Job& job);
/// Refuses restrictions that mean nothing where every layer has a strategy of its own.
Status layerwise_dimensions(const SearchSpace& space);
Error unknown_pruning_rule(const std::string& name);
/// A phase of the search that cannot be left out; `known`: all phases, the first of which cannot.
Error unknown_phase(const std::string& name, const std::vector<std::string>& known);

}  // namespace espalier::planner
