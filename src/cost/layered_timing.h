// SPDX-License-Identifier: Apache-2.0
// PlanTiming of a plan whose layers have strategies of their own. Where all strategies are equal it is plan_timing's, to the
// nanosecond.
//
// A chunk is the sum of its ranges, each under its own strategy, plus the redistribution of the activation wherever two
// neighbouring layers spread it differently (redistribution.h), also where a chunk takes over from another stage: the message
// travels as the sender holds it, and the receiver redistributes. Step-end communication: strategies that differ only in
// recomputation reduce together; each group of layers is cut into its share of the chunk's buckets, and all buckets of a chunk take
// the mean.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/layer_cost.h"
#include "cost/timing.h"
#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier::cost {

/// Layers first … last under one strategy, with what every kind of layer costs under it (layer_costs). The pointers outlive the
/// call.
struct RangeCost {
  std::int32_t first = 0, last = 0;
  const Strategy* strategy = nullptr;
  const std::vector<LayerCost>* layers = nullptr;
};
/// Ranges of each pipeline chunk, in the order of layers.
using ChunkRanges = std::vector<std::vector<RangeCost>>;

void layered_timing(const CostContext& c, const Schedule& schedule, const ChunkRanges& chunks, const ProgramStructure& structure,
                    PlanTiming& out);
/// The same of ranges of each pipeline chunk that are not priced yet; `samples` of a micro-batch in all replicas.
void layered_timing(const CostContext& c, const Schedule& schedule, const std::vector<std::vector<LayerRange>>& chunks,
                    std::int64_t samples, const ProgramStructure& structure, PlanTiming& out);

/// What one layer adds to its chunk and stage whatever its neighbours are: the parts from which a search over layers sums. Sums
/// of these are never above what layered_timing finds: left out are the gather and reduction at the edges of a chunk,
/// redistribution, messages, buffers, what is there once a stage, and what rounding may take (a few ns, less than a shard of
/// elements).
struct LayerShare {
  std::int64_t forward_ns = 0, backward_ns = 0;  ///< recomputation and ZeRO communication of one micro-batch included
  std::int64_t split_backward_ns = 0;  ///< input and weight gradients apart, as zero-bubble schedules run them (ZeRO ≤ 1)
  std::int64_t reduce_ns = 0;          ///< its gradients once a step, if not reduced with every micro-batch
  /// What its step-end communication costs at least even where compute hides it: the compute beside it slows down. Beside a
  /// collective of length r compute loses r·κ_c·(1 − 1/κ_w), and what is not hidden counts whole. Of the reduction; of the gather
  /// of ZeRO 1 and 2, which a stage that waits for its first micro-batch has for nothing.
  std::int64_t hidden_ns = 0, gather_ns = 0;
  double update_bytes = 0;  ///< that the optimizer moves
  std::int64_t state_bytes = 0, saved_bytes = 0;
  std::int64_t transient_bytes = 0;  ///< while it runs, forward or backward
  std::int64_t boundary_bytes = 0;   ///< the activation it hands on, on one rank
};
/// One layer of every kind under `s` (s.recompute.kind counts for blocks; its number of layers does not). `layers` = layer_costs
/// of s.
void layer_shares(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                  std::vector<LayerShare>& out);
/// Seconds in which a stage updates what moves `bytes`, without what is constant: a lower bound that adds up.
double update_s(const CostContext& c, double bytes);
/// What is constant: of an update, and of a micro-batch that passes a chunk down and up.
double update_constant_s(const CostContext& c);
double pass_constant_s(const CostContext& c);

/// The timing of any plan as it stands.
void timing_of_plan(const CostContext& c, const Plan& plan, const ProgramStructure& structure, PlanTiming& out);

}  // namespace espalier::cost
