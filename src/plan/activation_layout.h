// SPDX-License-Identifier: Apache-2.0
// Computes which part of a micro-batch a rank holds between two layers, and how it gets the part that another
// strategy or stage needs.
//
// An activation is [tokens, samples, features]. A rank at place (t, c, d) in its tensor, context and data dimensions
// holds a box:
//     samples    those of replica d: [d·b, (d+1)·b), or as Stage::samples_per_replica assigns them
//     tokens     of the sequence S, cut by context parallelism and then by sequence parallelism (below)
//     features   all of them.
//
// With context parallelism, all-to-all takes the tokens [c·S/cp, (c+1)·S/cp). Ring takes the slices c and 2cp−1−c of
// 2cp. This zig-zag gives all ranks equally many scores to compute under a causal mask (Brandon et al. 2023). If 2cp
// does not divide S, ring cuts as all-to-all does. Sequence parallelism takes the t-th of tp equal parts of these
// tokens, one after the other.
//
// If the operators of a block are partitioned (Strategy::partition), the box of its replica is cut as the block
// leaves the residual stream (BlockPartition::boundary). Ranks with equal boxes hold equal copies. The gradient of an
// activation has the layout of the activation, so both directions are moved alike.
//
// Redistribution works the same inside a stage and between two stages. Every rank requests its new box cell by cell;
// a cell is one box of the old layout. It uses a cell that it holds itself, and otherwise takes it from copy number
// (its place mod copies). Sender and receiver compute the same list, and no rank gets two boxes from the same sender.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

/// Holds the half-open range [first, last).
struct Extent {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t size() const { return last - first; }
  bool operator==(const Extent&) const = default;
};
/// Returns the intersection; its size is zero or negative if the extents do not meet.
inline Extent overlap(const Extent& a, const Extent& b) { return {std::max(a.first, b.first), std::min(a.last, b.last)}; }

/// Holds disjoint runs of tokens in ascending order, one after the other as on a rank.
using TokenRuns = std::vector<Extent>;
/// Counts the tokens.
std::int64_t size_of(const TokenRuns& runs);
/// Returns part [first, last) of those tokens, counted in the order of the runs.
TokenRuns part_of(const TokenRuns& runs, Extent part);
/// Returns the tokens in both.
TokenRuns overlap(const TokenRuns& a, const TokenRuns& b);

struct ActivationBox {
  Extent samples;
  TokenRuns tokens;
  Extent features{0, 1};
  Extent keys{0, 1};  ///< key positions of attention scores inside a partitioned block (plan/block_tiles.h)
  bool operator==(const ActivationBox&) const = default;
};

/// Holds the place of a position of a stage under a strategy.
struct PlaceInStage {
  std::int64_t t = 0;  ///< in the tensor group
  std::int64_t c = 0;  ///< in the context group
  std::int64_t d = 0;  ///< which replica of the samples
};
PlaceInStage place_in_stage(const Strategy& strategy, std::int64_t position);

/// Describes the part of a micro-batch that all ranks of a stage hold together.
struct ActivationShape {
  std::int64_t samples = 1;            ///< samples of a replica, if all take the same number
  std::vector<std::int64_t> replicas;  ///< Stage::samples_per_replica; empty: equal shares
  std::int64_t tokens = 1, features = 1;
};

/// Returns the tokens of a sample (0 … `tokens` − 1) that a context rank processes.
TokenRuns tokens_of_context(const Strategy& strategy, std::int64_t c, std::int64_t tokens);

/// Returns the samples of a micro-batch that a replica takes.
Extent samples_of_replica(const ActivationShape& shape, std::int64_t replica);

/// Returns the box of a position. `block` is true between two blocks, where a partition of operators cuts the box; it
/// is false next to the embedding or the head.
ActivationBox box_of(const Strategy& strategy, std::int64_t position, const ActivationShape& shape, bool block);
/// Returns the boxes of positions 0 … `positions` − 1.
std::vector<ActivationBox> boxes_of(const Strategy& strategy, std::int64_t positions, const ActivationShape& shape, bool block);

/// Moves a box from one position to another, or keeps it if both are the same.
struct BoxMove {
  std::int64_t from = 0, to = 0;
  ActivationBox box;
  bool operator==(const BoxMove&) const = default;
};
/// Returns all moves from layout `old_boxes` to `new_boxes` (by position), in a fixed order. With `same_stage`, a
/// position of both layouts is one rank, which keeps its own part; otherwise everything is sent.
std::vector<BoxMove> moves_between(const std::vector<ActivationBox>& old_boxes, const std::vector<ActivationBox>& new_boxes,
                                   bool same_stage = true);

}  // namespace espalier
