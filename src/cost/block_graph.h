// SPDX-License-Identifier: Apache-2.0
// The operators of one transformer block and the tensors between them, for partition sequences.
//
// Nodes follow the layer's operators: linears, norms, activations, residual additions, and attention as one operator where the engine
// fuses it, else QKᵀ, softmax and AV; rotary embeddings, norms of Q and K and dropout run on the tiles of the operator they precede (of
// the one before, where there is none). Edges: each operator to the next; the residual stream to the addition that closes a branch; V
// from QKV to AV. Node 0 is the stream that enters: it has no operator. Norms, activations and additions may also be replicated: the
// letter R, a dimension that no tensor has (Megatron's work outside tensor parallelism).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cost/partition_cost.h"
#include "cost/workload.h"
#include "espalier/result.h"

namespace espalier::cost {

struct BlockEdge {
  std::int32_t from = 0, to = 1;
  std::vector<int> tensors;  ///< of the consumer
  /// Neighbours are joined by exactly one edge; others are long.
  [[nodiscard]] bool is_long() const { return to != from + 1; }
};

struct BlockGraph {
  std::vector<PartitionedOperator> operators;  ///< [0]: what enters
  std::vector<BlockEdge> edges;
  [[nodiscard]] int nodes() const { return static_cast<int>(operators.size()); }
};

/// `samples`: micro-batch over all devices that share the block. The operators point into `kind`. Error: a layer that has no such graph.
Result<BlockGraph> block_graph(const Workload& workload, const EngineModel& engine, const LayerKind& kind, std::int64_t samples);

/// The tensor that an operator hands on.
int output_tensor(const partition::OperatorShape& shape);

/// Layouts of a block's tensors, numbered. Not to be shared by threads.
class BlockLayouts {
 public:
  explicit BlockLayouts(const PartitionFabric& fabric) : table_(fabric) {}
  [[nodiscard]] const LayoutTable& table() const { return table_; }
  /// Inputs: where the operator reads them, and where it leaves their gradients; outputs: where it leaves them, and where it wants theirs.
  LayoutId of(const PartitionedOperator& node, const partition::PartitionSequence& sequence, int tensor, bool gradient);
  /// Every device holds everything.
  LayoutId replicated() { return table_.plain({}); }

 private:
  LayoutTable table_;
  std::map<std::uint64_t, LayoutId> primitive_;
};

}  // namespace espalier::cost
