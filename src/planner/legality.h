// SPDX-License-Identifier: Apache-2.0
// Checks the conditions that a job, a configuration and a plan must satisfy before anything is computed. Each
// violation is an Error.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "plan/rules.h"

namespace espalier::planner {

/// Returns "RULE: text; RULE: …" without the hints: a hint is about its rule alone, and following it may
/// break another rule.
std::string named_rules(const std::vector<RuleViolation>& broken);
/// Returns all rules of the space and of the engine that the configuration breaks, as one Error; nothing if
/// it is legal.
Status illegal(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);
/// Rejects a plan file that is not for this job: world and layers must be the same.
Status plan_fits_job(const Job& job, const Plan& plan);
/// Returns whether plans of the job may lie on unequal devices. The job decides; the default is true on a cluster
/// whose devices are not all equal.
bool any_devices(const Job& job);
/// Rejects two values of search.devices: `equal` on a cluster of unequal devices, and `any` or `all` for an engine
/// whose stages must be alike.
Status device_choice(const Job& job, const EngineModel& engine);
/// Rejects restrictions of dimensions that a search on heterogeneous devices does not vary.
Status searched_pins(const Job& job);
/// Rejects restrictions that mean nothing if every layer has its own strategy.
Status layerwise_dimensions(const SearchSpace& space);
Error unknown_pruning_rule(const std::string& name);
/// Returns the error for a phase of the search that cannot be left out. `known` lists all phases, the first of
/// which always runs.
Error unknown_phase(const std::string& name, const std::vector<std::string>& known);

}  // namespace espalier::planner
