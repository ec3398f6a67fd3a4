// SPDX-License-Identifier: Apache-2.0
// From layers to the costs of a whole program, which the simulator runs on and every bound is made of. One function
// serves uniform plans, plans whose layers have strategies of their own, and operator partitions.
//
// A chunk is the sum of its ranges, each under its own strategy, plus the redistribution of the activation wherever
// two neighbouring layers spread it differently (redistribution.h). That includes a chunk which takes over from
// another stage: the message travels as the sender holds it, and the receiver redistributes. ZeRO communication
// inside a chunk runs layer by layer, overlapped with compute where `overlap` enables it, else exposed. Stage 2
// reduce-scatters gradients per micro-batch; stage 3 also all-gathers parameters in forward and backward. The first
// gather and the last reduction of a chunk are never hidden. Full recomputation adds the forward of the first
// `layers` blocks of a range to its backward; memory is counted in the order of layers (chunk_sum.h). Each chunk pass
// adds `EngineFacts::pass_launches` kernel launches of framework overhead. The optimizer is memory-bound over its
// state, (g + 2·master + 2·moments + p + g for the gradient norm) bytes per element of the shard.
//
// Step-end communication: strategies that differ only in recomputation reduce together. Each group of layers is cut
// into its share of the chunk's buckets, and all buckets of a chunk take the mean. At the end of the step, before the
// update, the stage waits for `exposed_share` of a reduction that overlaps the backward pass. Where output and
// embedding share a table, it waits for the table's part as well: that gradient is complete only with the last
// operator of the backward pass.
//
// Messages are emitted once (each_reduction, each_gather). The search adds them up, and a program that is passed in
// records them. So bytes in a program and nanoseconds in its costs cannot diverge.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "cost/chunk_sum.h"
#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "cost/split_table.h"
#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier::cost {

class ClusterCosts;  // cluster_costs.h
struct StagePlace;

/// Holds layers first … last under one strategy, with the costs of every kind of layer under it (layer_costs). The
/// pointers outlive the call.
struct RangeCost {
  std::int32_t first = 0, last = 0;
  const Strategy* strategy = nullptr;
  const std::vector<LayerCost>* layers = nullptr;
  const CostContext* on = nullptr;  ///< context of the devices of its stage; null: all stages are alike
};
/// Holds the ranges of each pipeline chunk, in the order of layers.
using ChunkRanges = std::vector<std::vector<RangeCost>>;

/// Holds memory that one thread reuses from call to call.
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

/// Prices one strategy for all layers and fills `out`, whose memory it reuses. Costs of equal chunks are computed
/// once.
void price(const CostContext& c, const ProgramStructure& structure, const Strategy& s, const SplitTable& split,
           const std::vector<LayerCost>& layers, PriceScratch& scratch, Costs& out);

/// Prices ranges whose layers are priced already: under `c`, or, where `cluster` is given, each stage at its place
/// and each range under its own context. `program` may be null. Otherwise it has the same structure, ranges and
/// strategies (lower of a plan), and receives the bytes that collectives and transfers move.
void price(const CostContext& c, const ProgramStructure& structure, const ChunkRanges& chunks, Costs& out,
           Program* program = nullptr, const ClusterCosts* cluster = nullptr, const std::vector<StagePlace>* places = nullptr);

/// Holds ranges of pipeline chunks, and what their layers cost under each of their strategies.
struct RangesOfPlan {
  ChunkRanges chunks;
  std::deque<std::pair<const Strategy*, std::vector<LayerCost>>> layers;  ///< a deque keeps their addresses
};
/// Computes the costs of the layers of each pipeline chunk, which must outlive the result; `samples` are those of a
/// micro-batch in all replicas.
RangesOfPlan ranges_of(const CostContext& c, std::int32_t stages, const std::vector<std::vector<LayerRange>>& chunks,
                       std::int64_t samples);

/// Computes the static bytes of every stage under another ZeRO stage and shard group than those of `costs`; s.zero
/// and s.shard decide. The largest message that enters any chunk is costs.message.
void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const Costs& costs,
                  std::vector<std::int64_t>& out);

}  // namespace espalier::cost
