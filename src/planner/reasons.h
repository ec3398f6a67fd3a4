// SPDX-License-Identifier: Apache-2.0
// Why this plan, in sentences; and the errors of configurations that are not legal.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine.h"

namespace espalier {

std::vector<std::string> reasons_of(const Job& job, const PlannerResult& result);

/// Every rule of the space and of the engine that the configuration breaks, as one Error; nothing when legal.
Status illegal(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule);
/// A plan file must be for this job: same world, same layers.
Status plan_fits_job(const Job& job, const Plan& plan);
/// Refuses engines that run one strategy for all layers.
Status layerwise_engine(const EngineModel& engine);
/// Refuses restrictions that mean nothing where every layer has a strategy of its own.
Status layerwise_dimensions(const SearchSpace& space);
Error unknown_pruning_rule(const std::string& name);

}  // namespace espalier
