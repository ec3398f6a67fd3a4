// SPDX-License-Identifier: Apache-2.0
// What runs inside the compute instructions of a timeline (espalier/timeline.h, TimelineStep): every step of every
// layer, its collectives with kind, group and bytes, and what they run beside (cost/chunk_steps.h).
//
// Steps are laid out in the time that the instruction takes alone, and stretched evenly where it took longer in the
// simulation (compute beside data-parallel collectives) or was cut into buckets. Shown are the first rank of each
// stage, and of its instructions those of the first micro-batch, or all where that makes no more than kFewSteps of
// them.
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
