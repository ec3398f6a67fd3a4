// SPDX-License-Identifier: Apache-2.0
// Determines the distribution of a block whose operators are partitioned one by one over a tensor group
// (Strategy::partition). It covers tiles of activations, elements of weights, and gradients that are sums. Everything
// follows from the slices of partition/slices.h, whose device numbers are the places here.
//
//     activations   a tile is a box of samples and tokens, and one extent or several adjacent ones of features.
//                   Features are laid out as in the runtime: gate and up of one index are adjacent.
//                   Queries, keys and values have all queries first, then key and value of each key/value head.
//                   A slice of the K of their linear is one of groups of heads (partition/operator_splits.h).
//     scores        features are heads, and keys are cut as well.
//     weights       the tile of the first step of the forward, as plan/ownership.h numbers elements.
//                   Biases go with the outputs of that tile; norms of heads are whole.
//     gradients     those of weights that several places hold are sums over a group indicator
//                   (partition/communication.h), because those places saw different samples, tokens or heads.
//                   With P_{2^k×2^k} only those of biases are sums.
//
// From one operator to the next every place requests its tile piece by piece and keeps the pieces that it holds
// itself. It gets others from the holder of least reach (partition/layout.h); of several, from the one that differs
// in the fewest bits, then from the lowest.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/communication.h"
#include "plan/activation_layout.h"
#include "plan/block_graph.h"
#include "plan/ownership.h"

namespace espalier {

/// Holds the operators of a block and their partitions.
struct SpreadBlock {
  BlockGraph graph;
  std::vector<partition::PartitionSequence> sequences;  ///< sequences of nodes 1 …
  [[nodiscard]] const partition::PartitionSequence& sequence(int node) const {
    return sequences[static_cast<std::size_t>(node) - 1];
  }
  [[nodiscard]] const PartitionedOperator& node(int n) const { return graph.operators[static_cast<std::size_t>(n)]; }
  [[nodiscard]] int places() const { return sequences.front().devices(); }
};

/// Returns a block of `kind` under the strategy's partition. `samples` is the micro-batch of its tensor group. The
/// nodes point into `kind`. It is an error if the partition names another block or does not divide.
Result<SpreadBlock> spread_block(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples,
                                 const Strategy& strategy);

/// Holds adjacent boxes along the features, with the same samples, tokens and keys.
using ActivationTile = std::vector<ActivationBox>;
std::int64_t features_of(const ActivationTile& tile);

/// Returns the tiles of a node's tensor under `layout`, by place.
std::vector<ActivationTile> tiles_of(const SpreadBlock& block, int node, int tensor, const partition::Layout& layout);

/// Returns the elements of the layer that a place holds, in the order of plan/ownership.h.
Intervals held_elements(const SpreadBlock& block, const LayerKind& kind, int place);

/// Describes elements whose gradients are summed over the places of an indicator.
struct GradientSum {
  Intervals elements;  ///< a part of the elements that the place holds
  partition::GroupIndicator indicator = 0;
  bool operator==(const GradientSum&) const = default;
};
std::vector<GradientSum> gradient_sums(const SpreadBlock& block, const LayerKind& kind, int place);

/// Returns the indicators over which activations, their gradients and statistics of norms are summed, each once.
std::vector<partition::GroupIndicator> summed_indicators(const SpreadBlock& block);

/// Identifies a piece of a tile.
struct TilePiece {
  std::int32_t tensor = 0, piece = 0;
  bool operator==(const TilePiece&) const = default;
};
/// Moves a box from a piece of one tile to a piece of another, or keeps it if both places are the same.
struct PieceMove {
  int from = 0, to = 0;
  TilePiece out, into;
  ActivationBox box;
  bool operator==(const PieceMove&) const = default;
};
/// Returns the moves from the held to the wanted tiles ([tensor][place]), by receiver. Boxes of one tensor are
/// equal or disjoint.
std::vector<PieceMove> piece_moves(const std::vector<std::vector<ActivationTile>>& held,
                                   const std::vector<std::vector<ActivationTile>>& wanted);

}  // namespace espalier
