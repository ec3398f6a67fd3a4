// SPDX-License-Identifier: Apache-2.0
// Adds the steps inside the compute instructions of a timeline (espalier/timeline.h, TimelineStep). It shows every
// step of every layer, its collectives with kind, group and bytes, and the compute that they overlap
// (cost/chunk_steps.h).
//
// Steps are laid out in the stand-alone time of the instruction. They are stretched evenly if it took longer in the
// simulation (compute overlapped with data-parallel collectives) or was cut into buckets. Only the first rank of each
// stage is shown. Its instructions of the first micro-batch are shown, or all if they have at most kFewSteps steps.
#pragma once

#include <cstddef>

#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "espalier/plan.h"
#include "espalier/simulate.h"
#include "espalier/timeline.h"
#include "plan/program.h"

namespace espalier::sim {

inline constexpr std::size_t kFewSteps = 20000;

/// Fills TimelineRank::steps. `costs` and `simulation` (with spans) must be those of the plan under `context`: the
/// steps of every chunk are checked to add up to it, component by component. `timeline` must be timeline_of the same.
void add_steps(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
               const Simulation& simulation, Timeline& timeline);

}  // namespace espalier::sim
