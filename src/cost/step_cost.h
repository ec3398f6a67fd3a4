// SPDX-License-Identifier: Apache-2.0
// What the steps of one phase of a layer cost (plan/steps.h says what they do), and how they add up to the phase:
//
//     compute  = Σ compute_s
//     exposed  = Σ (pair(communication_s, beside_s) − beside_s) + network_wait_s             pair: overlap.h; alone: beside_s = 0
//     hidden   = Σ max(0, communication_s − what is exposed of it)                           where the phase counts it
//     other    = max(0, host_s − compute − exposed)                                          the GPU waits for kernel launches
//
// in seconds. Sums run in the order of `term`, exposed and hidden time of equal terms is added up first, weight
// gradients are summed apart and added last, and each component is rounded to whole nanoseconds once. Steps that count
// `each` for themselves (operator partitions) are whole nanoseconds already, with pair_ns in the place of pair; steps
// that count `on_top` come after the phase is complete and do not shorten its waits.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "cost/overlap.h"
#include "plan/steps.h"

namespace espalier::cost {

enum class Counted : std::uint8_t { summed, each, on_top };

struct StepCost {
  double compute_s = 0;        ///< of the step, nothing beside it
  double communication_s = 0;  ///< of its traffic, all messages, nothing beside it
  double beside_s = 0;         ///< compute that its traffic runs beside
  MutualSlowdown slowdown;     ///< of that compute and the traffic by each other
  std::int32_t term = 0;       ///< place in the sum
  Counted counted = Counted::summed;
};

/// One phase (forward, backward, input gradients, weight gradients, selective recomputation) of one layer and
/// micro-batch.
struct PhaseSteps {
  std::vector<Step> steps;
  std::vector<StepCost> costs;  ///< by step
  double network_wait_s = 0;    ///< fitted: what ranks of a group that crosses nodes wait for each other; exposed
  double host_s = 0;            ///< kernel launches and what the host waits for
  bool counts_hidden = true;    ///< false in the halves of a split backward, of which hidden time is not stated
  /// `step` must have no negative bytes and `cost` no negative seconds.
  void add(Step step, const StepCost& cost);
};
/// The phase by the rule above.
PhaseTime phase_time(const PhaseSteps& phase);
/// Bytes that the phase moves: Σ bytes · times.
double bytes_of(const PhaseSteps& phase);

/// The phases of one layer. backward = both gradients as one; schedules that split it run backward_input and
/// backward_weight instead.
struct LayerSteps {
  PhaseSteps forward, backward, backward_input, backward_weight;
  PhaseSteps recompute_selective;  ///< runs before the backward pass where activations are recomputed selectively
};

/// When a step runs, in nanoseconds from the start of its phase; start = end where it does not compute, or does not
/// move.
struct StepSpan {
  std::int64_t compute_start_ns = 0, compute_end_ns = 0;
  std::int64_t traffic_start_ns = 0, traffic_end_ns = 0;
};
/// The steps one after the other, traffic beside compute as overlap.h has it: both start together, each slows the other
/// down while both run, and the longer one ends the group. The last step ends with compute + exposed of phase_time less
/// network_wait_s; what is left of the phase after that is waiting.
std::vector<StepSpan> step_spans(const PhaseSteps& phase);

}  // namespace espalier::cost
