// SPDX-License-Identifier: Apache-2.0
// Which part of a micro-batch a rank holds between two layers, and how it gets what another strategy, or another stage,
// wants.
//
// An activation is [tokens, samples, features]. A rank of place (t, c, d) in its tensor, context and data dimensions
// holds the box
//     samples   those of replica d: [d·b, (d+1)·b), or as Stage::samples_per_replica deals them
//     tokens    of the sequence S, or with context parallelism: all-to-all [c·S/cp, (c+1)·S/cp); ring slices c and
//               2cp−1−c of 2cp, zig-zag, so
//               that under a causal mask all have as many scores to compute (Brandon et al. 2023); where 2cp does not
//               divide S as all-to-all.
//               With sequence parallelism the t-th of tp equal parts of these, one after the other
//     features  all
// Where the operators of a block are partitioned (Strategy::partition) the box of its replica is cut as the block
// leaves the residual stream (BlockPartition::boundary). Ranks that hold equal boxes hold equal copies; the gradient of
// an activation lies as the activation does, so that both directions are moved alike.
//
// From one layout to another, inside a stage or between two: every rank asks for its new box cell by cell (a cell is
// one box of the old layout); it takes a cell that it holds itself, otherwise from copy number (its place mod copies).
// Sender and receiver compute the same list, and no rank gets two boxes from one other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

/// [first, last)
struct Extent {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t size() const { return last - first; }
  bool operator==(const Extent&) const = default;
};
/// Returns the intersection; empty or negative in size where they are apart.
inline Extent overlap(const Extent& a, const Extent& b) { return {std::max(a.first, b.first), std::min(a.last, b.last)}; }

/// Runs of tokens, ascending and apart from each other: as they lie one after the other on a rank.
using TokenRuns = std::vector<Extent>;
/// How many tokens they are.
std::int64_t size_of(const TokenRuns& runs);
/// Part [first, last) of those tokens, counted as they lie.
TokenRuns part_of(const TokenRuns& runs, Extent part);
/// Tokens in both.
TokenRuns overlap(const TokenRuns& a, const TokenRuns& b);

struct ActivationBox {
  Extent samples;
  TokenRuns tokens;
  Extent features{0, 1};
  Extent keys{0, 1};  ///< of attention scores inside a partitioned block (plan/block_tiles.h)
  bool operator==(const ActivationBox&) const = default;
};

/// Where a position of a stage stands under a strategy.
struct PlaceInStage {
  std::int64_t t = 0;  ///< in the tensor group
  std::int64_t c = 0;  ///< in the context group
  std::int64_t d = 0;  ///< which replica of the samples
};
PlaceInStage place_in_stage(const Strategy& strategy, std::int64_t position);

/// What all ranks of a stage together hold of a micro-batch.
struct ActivationShape {
  std::int64_t samples = 1;            ///< of a replica, where all take as many
  std::vector<std::int64_t> replicas;  ///< Stage::samples_per_replica; empty: equal shares
  std::int64_t tokens = 1, features = 1;
};

/// Of `tokens` of a sample those that a context rank works on.
TokenRuns tokens_of_context(const Strategy& strategy, std::int64_t c, std::int64_t tokens);

/// Of all samples of a micro-batch those of a replica.
Extent samples_of_replica(const ActivationShape& shape, std::int64_t replica);

/// The box of a position; `block`: between two blocks, where a partition of operators cuts it, not beside the embedding
/// or the head.
ActivationBox box_of(const Strategy& strategy, std::int64_t position, const ActivationShape& shape, bool block);
/// Those of positions 0 … `positions` − 1.
std::vector<ActivationBox> boxes_of(const Strategy& strategy, std::int64_t positions, const ActivationShape& shape, bool block);

/// A box that goes from one position to another, or stays where both are one.
struct BoxMove {
  std::int64_t from = 0, to = 0;
  ActivationBox box;
  bool operator==(const BoxMove&) const = default;
};
/// All moves from layout `old_boxes` to `new_boxes` (by position), in one order. `same_stage`: a position of both is
/// one rank, which keeps what it has; otherwise everything is sent.
std::vector<BoxMove> moves_between(const std::vector<ActivationBox>& old_boxes, const std::vector<ActivationBox>& new_boxes,
                                   bool same_stage = true);

}  // namespace espalier
