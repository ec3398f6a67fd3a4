// SPDX-License-Identifier: Apache-2.0
// Describes the operators of one transformer block and the tensors between them, for partition sequences.
//
// Nodes follow the layer's operators: linears, norms, activations and residual additions. Attention is one operator
// if the engine fuses it, else QKᵀ, softmax and AV. Rotary embeddings, norms of Q and K, and dropout run on the tiles
// of the operator that they precede, or of the one before if there is none. Edges connect each operator to the next,
// the residual stream to the addition that closes a branch, and V from QKV to AV. Node 0 is the incoming stream and
// has no operator. Norms, activations and additions may also be replicated: the letter R, a dimension that no tensor
// has (Megatron's work outside tensor parallelism).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "partition/operator_splits.h"
#include "plan/engine_fwd.h"

namespace espalier {

/// Names the part of attention that an operator runs: one fused kernel, or three operators.
enum class OperatorPart : std::uint8_t { whole, scores, softmax, values };

/// Describes a node of a block.
struct PartitionedOperator {
  partition::OperatorShape shape;
  const Operator* op = nullptr;
  OperatorPart part = OperatorPart::whole;
  std::vector<const Operator*> beside;  ///< element-wise operators that run on its tiles: rotary, dropout
  bool input_kept = false;              ///< the operator before keeps this input
};

struct BlockEdge {
  std::int32_t from = 0, to = 1;
  std::vector<int> tensors;  ///< tensor indices of the consumer
  /// Returns whether the edge is long: neighbours are joined by exactly one edge, all others are long.
  [[nodiscard]] bool is_long() const { return to != from + 1; }
};

struct BlockGraph {
  std::vector<PartitionedOperator> operators;  ///< [0]: the incoming stream
  std::vector<BlockEdge> edges;
  [[nodiscard]] int nodes() const { return static_cast<int>(operators.size()); }
};

/// Builds the graph; an error if the layer has no such graph. `samples` is the micro-batch over all devices that
/// share the block. The operators point into `kind`.
Result<BlockGraph> block_graph(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples);

/// Returns the tensor that an operator passes on.
int output_tensor(const partition::OperatorShape& shape);

/// Returns the sequences of nodes 1 … as a partition names them, over 2^`bits` devices. Errors are another order of
/// operators, other bits, or a sequence that its operator does not allow.
Result<std::vector<partition::PartitionSequence>> sequences_of(const BlockGraph& graph, const LayerKind& kind, int bits,
                                                               const BlockPartition& partition);

}  // namespace espalier
