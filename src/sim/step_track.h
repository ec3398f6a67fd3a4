// SPDX-License-Identifier: Apache-2.0
// What runs inside the compute instructions of a timeline, as further tracks of its Chrome trace (trace.h): every step of every layer, its
// collectives with kind, group and bytes, and what they run beside (cost/chunk_steps.h).
//
//   thread 5   steps: compute of the layers' operators, and waiting
//   thread 6   traffic: collectives of steps, and between layers
//   thread 7   ZeRO: gathers and reductions of whole layers
// Steps are laid out in the time that the instruction takes alone, and stretched evenly where it took longer in the simulation (compute beside
// data-parallel collectives) or was cut into buckets. Shown are the ranks of the timeline, and of their instructions those of the first micro-batch, or
// all where that makes no more than kFewEvents spans.
#pragma once

#include <string>

#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "espalier/plan.h"
#include "espalier/simulate.h"
#include "plan/program.h"

namespace espalier::sim {

inline constexpr std::size_t kFewEvents = 20000;

/// Events for Timeline::step_events. `costs` and `simulation` (with spans) must be those of the plan under `context`: the steps of every chunk
/// are checked to add up to it, component by component.
std::string step_events(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
                        const Simulation& simulation);

}  // namespace espalier::sim
