// SPDX-License-Identifier: Apache-2.0
// The operators of one transformer block and the tensors between them, for partition sequences.
//
// Nodes follow the layer's operators: linears, norms, activations, residual additions, and attention as one operator
// where the engine fuses it, else QKᵀ, softmax and AV; rotary embeddings, norms of Q and K and dropout run on the tiles
// of the operator they precede (of the one before, where there is none). Edges: each operator to the next; the residual
// stream to the addition that closes a branch; V from QKV to AV. Node 0 is the stream that enters: it has no operator.
// Norms, activations and additions may also be replicated: the letter R, a dimension that no tensor has (Megatron's
// work outside tensor parallelism).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "partition/operator_splits.h"
#include "plan/engine_fwd.h"

namespace espalier {

/// How the engine runs attention: one kernel, or three operators.
enum class OperatorPart : std::uint8_t { whole, scores, softmax, values };

/// A node of a block.
struct PartitionedOperator {
  partition::OperatorShape shape;
  const Operator* op = nullptr;
  OperatorPart part = OperatorPart::whole;
  std::vector<const Operator*> beside;  ///< element-wise operators that run on its tiles: rotary, dropout
  bool input_kept = false;              ///< the operator before keeps this input
};

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

/// `samples`: micro-batch over all devices that share the block. The operators point into `kind`. Error: a layer that
/// has no such graph.
Result<BlockGraph> block_graph(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples);

/// The tensor that an operator hands on.
int output_tensor(const partition::OperatorShape& shape);

/// The sequences of nodes 1 … as a partition names them, over 2^`bits` devices. Error: operators in another order,
/// other bits, a sequence that its operator does not allow.
Result<std::vector<partition::PartitionSequence>> sequences_of(const BlockGraph& graph, const LayerKind& kind, int bits,
                                                               const BlockPartition& partition);

}  // namespace espalier
