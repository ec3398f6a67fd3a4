// SPDX-License-Identifier: Apache-2.0
// A transformer block whose operators are partitioned one by one over the 2^n devices of a tensor group, as a layer
// of the cost model. Its time is (PrimePar, eq. 7, 9, 10)
//
//     phase = Σ operators (compute + all-reduces + what rings expose) + Σ edges redistribution.
//
// Redistributions block: activations forward, their gradients backward (backward_input). The block takes its input in
// the layout in which it leaves its output, so that equal blocks follow each other. Layers without a partition
// (embedding, head) hold the whole activation on every device. Handing it to them costs `boundary_gather`; a device
// that holds everything only cuts out its tile.
//     saved       tiles that the backward reads; under full recomputation the tile that enters
//     transient   largest working set of an operator, forward and backward, second buffers of tiles in flight included
//     gradients   operators whose weights several devices hold (splits of B or M) reduce them inside the group:
//                 `gradient_sync`, once a step; with every micro-batch where ZeRO scatters gradients with every
//                 micro-batch
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "cost/block_layouts.h"
#include "cost/layer_cost.h"
#include "cost/partition_cost.h"
#include "cost/step_cost.h"
#include "espalier/result.h"

namespace espalier::cost {

struct BlockCost {
  PhaseTime forward, backward, backward_input, backward_weight;  ///< redistributions are exposed
  double gradient_sync = 0;                                      ///< s
  double boundary_gather = 0;                                    ///< s
  double boundary_gather_bytes = 0;                              ///< bytes that a device lacks, at most
  /// Hold seconds, of forward and backward together.
  double collective = 0, ring_hidden = 0, ring_exposed = 0, redistribution = 0;
  std::int64_t parameters = 0;                                            ///< elements
  std::int64_t saved = 0, forward_transient = 0, backward_transient = 0;  ///< bytes of one block
  std::int64_t boundary_bytes = 0;                                        ///< tile that leaves
  std::vector<PartitionCost> operators;                                   ///< costs of nodes 1 …
  /// Holds the redistribution of an edge.
  struct Redistributed {
    std::int64_t forward_ns = 0, backward_ns = 0;
    double forward_bytes = 0, backward_bytes = 0;  ///< fetched by the device that fetches most
  };
  std::vector<Redistributed> redistributions;
};

/// Returns the cost of a block. `sequences` are those of nodes 1 …, each legal for its operator and of
/// costs.fabric().bits() bits.
BlockCost block_cost(PartitionCosts& costs, BlockLayouts& layouts, const BlockGraph& graph,
                     const std::vector<partition::PartitionSequence>& sequences);

/// Holds a block with its steps: operators in their order, redistributions before the operator that reads the tensor;
/// backward the other way round.
struct PricedBlock {
  BlockGraph graph;
  BlockCost cost;
  LayerSteps steps;
};
Result<PricedBlock> priced_block(const CostContext& context, const LayerKind& kind, std::int64_t samples, std::int32_t devices,
                                 const BlockPartition& partition);

/// Adds the reductions of BlockCost::gradient_sync to the backward pass, where they run with every micro-batch (ZeRO 2
/// and 3).
void add_gradient_reductions(const PricedBlock& block, LayerSteps& steps);

/// Returns the cost of a block under a strategy's partition: names and bits must be the block's, sequences legal.
/// `samples` is the micro-batch of the group.
Result<BlockCost> partitioned_block(const CostContext& context, const LayerKind& kind, std::int64_t samples, std::int32_t devices,
                                    const BlockPartition& partition);
/// Returns why a strategy cannot partition this model's blocks as specified, if so.
Status partition_fits(const CostContext& context, const Strategy& s, std::int32_t micro_batch);

/// Returns the block as a layer of the cost model.
LayerCost layer_cost_of(const BlockCost& block, const Strategy& s);

/// Remembers priced blocks: a pure function of (kind, devices, samples, partition), shared by threads.
class PartitionMemo {
 public:
  /// Returns the cost of a block. The partition must fit.
  const BlockCost& block(const CostContext& context, std::int32_t kind, std::int64_t samples, std::int32_t devices,
                         const BlockPartition& partition);

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::int32_t, std::int64_t, std::int32_t, BlockPartition>, std::unique_ptr<BlockCost>> known_;
};

}  // namespace espalier::cost
