// SPDX-License-Identifier: Apache-2.0
// Who has what of a block whose operators are partitioned one by one over a tensor group (Strategy::partition): tiles
// of its activations, elements of its weights, and whose gradients are sums. All of it follows from the slices of
// partition/slices.h; places are numbers of devices there.
//
//     activations   a tile is a box of samples and tokens, and of features one extent or several side by side. Features
//                   lie as the
//                   runtime has them: gate and up of one index beside each other; of queries, keys and values all
//                   queries, then of each
//                   key/value head its key and its value, while a slice of the K of their linear is one of groups of
//                   heads (partition/operator_splits.h)
//     scores        features are heads, and keys are cut as well
//     weights       the tile of the first step of the forward, as plan/ownership.h numbers elements; biases with the
//                   outputs of that tile, norms
//                   of heads whole
//     gradients     of weights that several places hold are sums over a group indicator (partition/communication.h):
//                   those places have
//                   seen different samples, tokens or heads. With P_{2^k×2^k} there are none but those of biases
//
// From one operator to the next every place asks for its tile piece by piece and takes what it has itself, otherwise
// from the holder of least reach (partition/layout.h), of several the one that differs in fewest bits, then the lowest.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/communication.h"
#include "plan/activation_layout.h"
#include "plan/block_graph.h"
#include "plan/ownership.h"

namespace espalier {

/// The operators of a block and how each is partitioned.
struct SpreadBlock {
  BlockGraph graph;
  std::vector<partition::PartitionSequence> sequences;  ///< of nodes 1 …
  [[nodiscard]] const partition::PartitionSequence& sequence(int node) const {
    return sequences[static_cast<std::size_t>(node) - 1];
  }
  [[nodiscard]] const PartitionedOperator& node(int n) const { return graph.operators[static_cast<std::size_t>(n)]; }
  [[nodiscard]] int places() const { return sequences.front().devices(); }
};

/// A block of `kind` under the strategy's partition; `samples` of a micro-batch in its tensor group. The nodes point
/// into `kind`. Error: what the partition names is not this block, or does not divide.
Result<SpreadBlock> spread_block(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples,
                                 const Strategy& strategy);

/// Boxes side by side along the features, of the same samples, tokens and keys.
using ActivationTile = std::vector<ActivationBox>;
std::int64_t features_of(const ActivationTile& tile);

/// The tiles of a node's tensor that lies as `layout`, by place.
std::vector<ActivationTile> tiles_of(const SpreadBlock& block, int node, int tensor, const partition::Layout& layout);

/// Elements of the layer that a place holds, in the order of plan/ownership.h.
Intervals held_elements(const SpreadBlock& block, const LayerKind& kind, int place);

/// Gradients of these elements are summed over the places of an indicator.
struct GradientSum {
  Intervals elements;  ///< of those that the place holds
  partition::GroupIndicator indicator = 0;
  bool operator==(const GradientSum&) const = default;
};
std::vector<GradientSum> gradient_sums(const SpreadBlock& block, const LayerKind& kind, int place);

/// Indicators over which activations, their gradients and statistics of norms are summed, each once.
std::vector<partition::GroupIndicator> summed_indicators(const SpreadBlock& block);

/// A piece of a tile.
struct TilePiece {
  std::int32_t tensor = 0, piece = 0;
  bool operator==(const TilePiece&) const = default;
};
/// A box that goes from one place to another, or stays where both are one: out of a piece of a tile into a piece of
/// another.
struct PieceMove {
  int from = 0, to = 0;
  TilePiece out, into;
  ActivationBox box;
  bool operator==(const PieceMove&) const = default;
};
/// Tiles [tensor][place] that are held → wanted, by receiver. Boxes of one tensor are equal or do not meet.
std::vector<PieceMove> piece_moves(const std::vector<std::vector<ActivationTile>>& held,
                                   const std::vector<std::vector<ActivationTile>>& wanted);

}  // namespace espalier
