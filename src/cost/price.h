// SPDX-License-Identifier: Apache-2.0
// From layers to the costs of a whole program: what the simulator runs on, and what every bound is made of. One
// function for uniform plans, for plans whose layers have strategies of their own and for operator partitions.
//
// A chunk is the sum of its ranges, each under its own strategy, plus the redistribution of the activation wherever two
// neighbouring layers spread it differently (redistribution.h), also where a chunk takes over from another stage: the
// message travels as the sender holds it, and the receiver redistributes. ZeRO communication inside a chunk (stage 2:
// gradient reduce-scatter per micro-batch; stage
// 3: parameter all-gather in forward and backward too) runs layer by layer beside compute when `overlap` says so, else
// exposed; the first gather and the last reduction of a chunk are never hidden. Full recomputation adds the forward of
// the first `layers` blocks of a range to its backward; memory is counted in the order of layers (chunk_sum.h). Per
// chunk pass `kPassLaunches` kernel launches of framework overhead. Optimizer: memory-bound over its state, (g +
// 2·master + 2·moments + p + g for the gradient norm) bytes per element of the shard.
//
// Step-end communication: strategies that differ only in recomputation reduce together; each group of layers is cut
// into its share of the chunk's buckets, and all buckets of a chunk take the mean. Of a reduction beside the backward
// pass `exposed_share` is waited for at the end of the step, before the update; and where output and embedding share a
// table its part: that gradient is complete with the last operator of the backward pass only.
//
// What is priced is emitted once (each_reduction, each_gather): the search adds it up, and a program that is handed
// over is told of it, so that bytes in a program and nanoseconds in its costs cannot part.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost/chunk_sum.h"
#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "cost/split_table.h"
#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier::cost {

/// Layers first … last under one strategy, with what every kind of layer costs under it (layer_costs). The pointers
/// outlive the call.
struct RangeCost {
  std::int32_t first = 0, last = 0;
  const Strategy* strategy = nullptr;
  const std::vector<LayerCost>* layers = nullptr;
  const CostContext* on = nullptr;  ///< of the devices of its stage; null: all stages are alike
};
/// Ranges of each pipeline chunk, in the order of layers.
using ChunkRanges = std::vector<std::vector<RangeCost>>;

/// Memory that one thread reuses from call to call.
class PriceScratch {
 public:
  PriceScratch();
  ~PriceScratch();
  PriceScratch(PriceScratch&&) noexcept;
  PriceScratch& operator=(PriceScratch&&) noexcept;
  struct State;
  [[nodiscard]] State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// Prices one strategy for all layers; fills `out` (reusing its memory). Costs of equal chunks are found once.
void price(const CostContext& c, const ProgramStructure& structure, const Strategy& s, const SplitTable& split,
           const std::vector<LayerCost>& layers, PriceScratch& scratch, Costs& out);

/// The same of ranges of each pipeline chunk; `samples` of a micro-batch in all replicas. `program`: of the same
/// structure, with its ranges and strategies (lower of a plan); receives the bytes that collectives and transfers move;
/// may be null.
void price(const CostContext& c, const ProgramStructure& structure, const std::vector<std::vector<LayerRange>>& chunks,
           std::int64_t samples, Costs& out, Program* program = nullptr);

/// Static bytes of every stage under another ZeRO stage and shard group than `costs` were made for: s.zero and s.shard
/// decide.
/// `message`: the largest message that enters any chunk.
void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const Costs& costs,
                  std::vector<std::int64_t>& out);

}  // namespace espalier::cost
