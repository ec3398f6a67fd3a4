// SPDX-License-Identifier: Apache-2.0
// Implements the operators of a block that is partitioned one by one over a tensor group (plan/block_tiles.h). Each
// works on the tiles of this rank: it computes, passes round and sums what its phases need
// (partition/communication.h).
//
//     linear       runs in steps t = 0 … T−1 (T = 2^k of P_{2^k×2^k}, 1 without P). While the present tiles are
//                  multiplied, the tiles of step t+1 are in flight. The sum of the gradients of a weight is passed on
//                  before its last product is added (Wang et al. 2024, table 1). A rank keeps its own tile of a weight
//                  in place. It also keeps the tile of the last forward step until the backward begins with it, so
//                  that no tile is sent back.
//     attention    computes QKᵀ, softmax and A·V on some heads, queries and keys; rotary positions and norms of heads
//                  run on the same tiles.
//     norm         sums over features, then over the ranks that split them.
//     others       do the arithmetic of one rank, on fewer numbers.
// Sums over ranks are all-reduces over a group indicator. Gradients of parameters wait, as those of LayerOperator do.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "plan/block_tiles.h"
#include "runtime/rank_operators.h"

namespace espalier::runtime {

/// Holds the data that one of these operators uses on this rank.
struct TilePlace {
  const SpreadBlock* block = nullptr;
  const LayerKind* kind = nullptr;
  int node = 0;                                             ///< node in the block
  int place = 0;                                            ///< place of this rank in the tensor group
  Communicator* group = nullptr;                            ///< the tensor group, by place
  std::map<partition::GroupIndicator, Communicator*> sums;  ///< groups of indicators
  Parameters parameters;                                    ///< parameters of the node's operator
  std::map<const Operator*, Parameters> beside;             ///< parameters of other operators on its tiles
  Architecture architecture;
  std::int32_t layer = 0;  ///< number in the model
  OperatorClock* clock = nullptr;
  [[nodiscard]] const PartitionedOperator& operation() const { return block->node(node); }
  [[nodiscard]] const partition::PartitionSequence& sequence() const { return block->sequence(node); }
  /// Adds up a tensor of a phase over the ranks that have parts of it. Where there are none, it does nothing.
  void sum(const partition::Communication& communication, partition::Phase phase, partition::TensorUse tensor,
           at::Tensor value) const;
  /// Runs communication.
  void communicate(const std::function<void()>& body) const;
  /// Runs arithmetic of an operator under the clock, where there is one. Time spent in `busy` is not counted as the
  /// operator's own.
  void timed(const Operator& op, Pass pass, const std::function<void()>& body, const Communicator* busy = nullptr) const;
};

class TileOperator {
 public:
  using Tensors = std::vector<at::Tensor>;
  virtual ~TileOperator() = default;
  /// Returns the output tile for the tiles of the inputs. Keeps in `saved` the tensors that the backward needs.
  virtual at::Tensor forward(Frame& frame, Tensors& saved, const Tensors& inputs) = 0;
  /// Returns the gradients of the inputs, given the gradient of the output.
  virtual Tensors backward(Frame& frame, Tensors& saved, const at::Tensor& dy) = 0;
  /// Returns the sum of two gradients of the stream that it adds to.
  [[nodiscard]] virtual at::Tensor joined(const at::Tensor& a, const at::Tensor& b) const { return a + b; }
};

std::unique_ptr<TileOperator> make_tile_operator(const TilePlace& place);
std::unique_ptr<TileOperator> make_tile_linear(const TilePlace& place);
std::unique_ptr<TileOperator> make_tile_attention(const TilePlace& place);

}  // namespace espalier::runtime
