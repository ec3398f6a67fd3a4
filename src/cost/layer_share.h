// SPDX-License-Identifier: Apache-2.0
// What one layer adds to its chunk and stage whatever its neighbours are: the parts from which a search over layers
// sums.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/layer_cost.h"
#include "espalier/plan.h"

namespace espalier::cost {

/// What one layer adds to its chunk and stage whatever its neighbours are: the parts from which a search over layers
/// sums. Sums of these are never above what price finds: left out are the gather and reduction at the edges of a chunk,
/// redistribution, messages, what is there once a stage, and what rounding may take (a few ns, less than a shard of
/// elements).
struct LayerShare {
  std::int64_t forward_ns = 0, backward_ns = 0;  ///< recomputation and ZeRO communication of one micro-batch included
  std::int64_t split_backward_ns = 0;  ///< input and weight gradients apart, as zero-bubble schedules run them (ZeRO ≤
                                       ///< 1)
  std::int64_t reduce_ns = 0;          ///< its gradients once a step, if not reduced with every micro-batch
  /// What its step-end communication costs at least even where compute hides it: the compute beside it slows down.
  /// Beside a collective of length r compute loses r·κ_c·(1 − 1/κ_w), and what is not hidden counts whole. Of the
  /// reduction; of the gather of ZeRO 1 and 2, which a stage that waits for its first micro-batch has for nothing.
  std::int64_t hidden_ns = 0, gather_ns = 0;
  double update_bytes = 0;  ///< that the optimizer moves
  std::int64_t state_bytes = 0, saved_bytes = 0;
  std::int64_t transient_bytes = 0;  ///< while it runs, forward or backward
  std::int64_t buffer_bytes = 0;     ///< of its ZeRO collectives: a stage has those of its largest layer at least, all
                                     ///< the time
  std::int64_t boundary_bytes = 0;   ///< the activation it hands on, on one rank
};
/// One layer of every kind under `s` (s.recompute.kind counts for blocks; its number of layers does not). `layers` =
/// layer_costs of s.
void layer_shares(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                  std::vector<LayerShare>& out);
/// Seconds in which a stage updates what moves `bytes`, without what is constant: a lower bound that adds up.
double update_s(const DeviceCost& device, double bytes);
/// What is constant: of an update, and of a micro-batch that passes a stage down and up (of one chunk; of several it
/// takes at least as long).
double update_constant_s(const DeviceCost& device, const EngineModel& engine);
double pass_constant_s(const DeviceCost& device, const EngineModel& engine);

}  // namespace espalier::cost
