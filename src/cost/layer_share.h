// SPDX-License-Identifier: Apache-2.0
// The costs that one layer adds to its chunk and stage whatever its neighbours are. A search over layers sums them.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/layer_cost.h"
#include "espalier/plan.h"

namespace espalier::cost {

/// Holds the costs that one layer adds to its chunk and stage whatever its neighbours are. Sums of these never exceed
/// what price() finds. They leave out the gather and reduction at the edges of a chunk, redistribution, messages, and
/// what exists once per stage. They also leave out roundings (a few ns, less than a shard of elements).
struct LayerShare {
  std::int64_t forward_ns = 0, backward_ns = 0;  ///< recomputation and ZeRO communication of one micro-batch included
  /// Counts input and weight gradients separately, as zero-bubble schedules run them (ZeRO ≤ 1).
  std::int64_t split_backward_ns = 0;
  std::int64_t reduce_ns = 0;  ///< its gradients once a step, if not reduced with every micro-batch
  /// Hold a lower bound on the cost of its step-end communication even where compute hides it, because that compute
  /// slows down. During a collective of length r compute loses r·κ_c·(1 − 1/κ_w), and what is not hidden counts
  /// whole. `hidden_ns` is that of the reduction. `gather_ns` is that of the gather of ZeRO 1 and 2, which costs
  /// nothing on a stage that waits for its first micro-batch.
  std::int64_t hidden_ns = 0, gather_ns = 0;
  double update_bytes = 0;  ///< bytes that the optimizer moves
  std::int64_t state_bytes = 0, saved_bytes = 0;
  std::int64_t transient_bytes = 0;  ///< while it runs, forward or backward
  /// Counts the buffers of its ZeRO collectives: a stage has those of its largest layer at least, all the time.
  std::int64_t buffer_bytes = 0;
  std::int64_t boundary_bytes = 0;  ///< activation that it passes on, on one rank
};
/// Fills in one layer of every kind under `s`. s.recompute.kind counts for blocks; its number of layers does not.
/// `layers` = layer_costs of s.
void layer_shares(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                  std::vector<LayerShare>& out);
/// Returns the seconds of an update that moves `bytes`, without its constant part: a lower bound that adds up over
/// layers.
double update_s(const DeviceCost& device, double bytes);
/// Return the constant parts: that of an update, and that of a micro-batch that passes a stage down and up. The
/// latter is for one chunk; several chunks take at least as long.
double update_constant_s(const DeviceCost& device, const EngineModel& engine);
double pass_constant_s(const DeviceCost& device, const EngineModel& engine);

}  // namespace espalier::cost
