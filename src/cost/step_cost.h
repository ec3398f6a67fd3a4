// SPDX-License-Identifier: Apache-2.0
// The costs of the steps of one phase of a layer (plan/steps.h describes the steps), and how they add up to the
// phase:
//
//     compute  = Σ compute_s
//     exposed  = Σ (pair(communication_s, beside_s) − beside_s) + network_wait_s   pair: overlap.h; alone: beside_s = 0
//     hidden   = Σ max(0, communication_s − its exposed part)                       where the phase counts it
//     other    = max(0, host_s − compute − exposed)                                 the GPU waits for kernel launches
//
// in seconds. Sums run in the order of `term`; exposed and hidden time of equal terms is added up first. Weight
// gradients are summed separately and added last. Each component is rounded to whole nanoseconds once. Steps that are
// counted `each` (operator partitions) are whole nanoseconds already, with pair_ns in place of pair. Steps that are
// counted `on_top` come after the phase is complete, and do not shorten its waits.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "cost/overlap.h"
#include "plan/steps.h"

namespace espalier::cost {

enum class Counted : std::uint8_t { summed, each, on_top };

struct StepCost {
  double compute_s = 0;        ///< compute of the step, without overlap
  double communication_s = 0;  ///< its traffic, all messages, without overlap
  double beside_s = 0;         ///< compute that its traffic overlaps
  MutualSlowdown slowdown;     ///< by which that compute and the traffic slow each other down
  std::int32_t term = 0;       ///< place in the sum
  Counted counted = Counted::summed;
};

/// Holds one phase (forward, backward, input gradients, weight gradients, selective recomputation) of one layer and
/// micro-batch.
struct PhaseSteps {
  std::vector<Step> steps;
  std::vector<StepCost> costs;  ///< by step
  double network_wait_s = 0;    ///< fitted wait of ranks for each other in a group that crosses nodes; exposed
  double host_s = 0;            ///< kernel launches and what the host waits for
  bool counts_hidden = true;    ///< false in the halves of a split backward, whose hidden time is not counted
  /// Adds a step. Its bytes and the seconds of `cost` must not be negative.
  void add(Step step, const StepCost& cost);
};
/// Returns the time of the phase by the rule above.
PhaseTime phase_time(const PhaseSteps& phase);
/// Returns the bytes that the phase moves: Σ bytes · times.
double bytes_of(const PhaseSteps& phase);

/// Holds the phases of one layer. backward = both gradients as one; schedules that split it run backward_input and
/// backward_weight instead.
struct LayerSteps {
  PhaseSteps forward, backward, backward_input, backward_weight;
  PhaseSteps recompute_selective;  ///< runs before the backward pass where activations are recomputed selectively
};

/// Holds when a step runs, in nanoseconds from the start of its phase; start = end where it does not compute, or does
/// not move.
struct StepSpan {
  std::int64_t compute_start_ns = 0, compute_end_ns = 0;
  std::int64_t traffic_start_ns = 0, traffic_end_ns = 0;
};
/// Returns the steps laid one after the other, with overlap as in overlap.h. Traffic and compute start together, each
/// slows the other down while both run, and the longer one ends the group. The last step ends with compute + exposed
/// of phase_time less network_wait_s; the rest of the phase is waiting.
std::vector<StepSpan> step_spans(const PhaseSteps& phase);

}  // namespace espalier::cost
