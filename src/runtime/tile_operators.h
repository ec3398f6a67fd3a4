// SPDX-License-Identifier: Apache-2.0
// The operators of a block that is partitioned one by one over a tensor group (plan/block_tiles.h), each on the tiles
// of this rank: what its phases compute, pass round and sum (partition/communication.h).
//
//     linear       in steps t = 0 … T−1 (T = 2^k of P_{2^k×2^k}, 1 without P): while the present tiles are multiplied,
//                  those of step t+1 are
//                  under way as messages; the sum of the gradients of a weight is passed on before its last product is
//                  added (Wang et al. 2024,
//                  table 1). A rank keeps its own tile of a weight where it is, and the one that the last forward step
//                  ended with until
//                  the backward begins with it, so that none is brought back
//     attention    QKᵀ, softmax and A·V on some heads, queries and keys; rotary positions and norms of heads on the
//                  same tiles
//     norm         sums over features are summed over the ranks that split them
//     others       what one rank would do, on fewer numbers
// What is summed over ranks is an all-reduce over a group indicator. Gradients of parameters wait, as those of
// LayerOperator do.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "plan/block_tiles.h"
#include "runtime/rank_operators.h"

namespace espalier::runtime {

/// What one of them works with on this rank.
struct TilePlace {
  const SpreadBlock* block = nullptr;
  const LayerKind* kind = nullptr;
  int node = 0;                                             ///< of the block
  int place = 0;                                            ///< of this rank in the tensor group
  Communicator* group = nullptr;                            ///< the tensor group, by place
  std::map<partition::GroupIndicator, Communicator*> sums;  ///< groups of indicators
  Parameters parameters;                                    ///< of the node's operator
  std::map<const Operator*, Parameters> beside;             ///< of operators on its tiles
  Architecture architecture;
  std::int32_t layer = 0;  ///< of the model
  OperatorClock* clock = nullptr;
  [[nodiscard]] const PartitionedOperator& operation() const { return block->node(node); }
  [[nodiscard]] const partition::PartitionSequence& sequence() const { return block->sequence(node); }
  /// Adds up a tensor of a phase over the ranks that have parts of it; nothing where there are none.
  void sum(const partition::Communication& communication, partition::Phase phase, partition::TensorUse tensor,
           at::Tensor value) const;
  /// Runs what is all communication.
  void communicate(const std::function<void()>& body) const;
  /// Runs arithmetic of an operator under the clock, where there is one; `busy`: in which it spends time that is not
  /// its own.
  void timed(const Operator& op, Pass pass, const std::function<void()>& body, const Communicator* busy = nullptr) const;
};

class TileOperator {
 public:
  using Tensors = std::vector<at::Tensor>;
  virtual ~TileOperator() = default;
  /// Of the tiles of its inputs the tile that it leaves. Keeps in `saved` what the backward needs.
  virtual at::Tensor forward(Frame& frame, Tensors& saved, const Tensors& inputs) = 0;
  /// Of the gradient of what it left those of its inputs.
  virtual Tensors backward(Frame& frame, Tensors& saved, const at::Tensor& dy) = 0;
  /// The sum of two gradients of the stream that it adds to.
  [[nodiscard]] virtual at::Tensor joined(const at::Tensor& a, const at::Tensor& b) const { return a + b; }
};

std::unique_ptr<TileOperator> make_tile_operator(const TilePlace& place);
std::unique_ptr<TileOperator> make_tile_linear(const TilePlace& place);
std::unique_ptr<TileOperator> make_tile_attention(const TilePlace& place);

}  // namespace espalier::runtime
