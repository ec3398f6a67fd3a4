// SPDX-License-Identifier: Apache-2.0
// Which part of a micro-batch a rank holds between two layers, and how it gets what another strategy wants.
//
// An activation is [tokens, samples, hidden]. A rank of place (t, d) in its tensor and data dimensions holds the box
//     samples [d·b, (d+1)·b)   b = samples of a micro-batch on one rank
//     tokens  all, or with sequence parallelism [t·S/tp, (t+1)·S/tp)
// of all hidden features. Ranks of one tensor group without sequence parallelism hold equal copies; the gradient of an activation lies as
// the activation does, so that both directions are moved alike.
//
// Moving from one layout to another inside a stage: every rank asks for its new box cell by cell (a cell is one box of the old layout); it
// takes a cell that it holds itself, otherwise from copy number (its place mod copies). Sender and receiver compute the same list.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier::runtime {

/// [first, last)
struct Span {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t size() const { return last - first; }
  bool operator==(const Span&) const = default;
};

struct Box {
  Span samples, tokens;
  bool operator==(const Box&) const = default;
};

/// Where a position of a stage stands under a strategy.
struct Standing {
  std::int64_t t = 0;  ///< in the tensor group
  std::int64_t d = 0;  ///< which replica of the samples
};
Standing standing_of(const Strategy& strategy, std::int64_t position);

/// The box of a position; `samples` of a micro-batch on one rank, `tokens` of a sample.
Box box_of(const Strategy& strategy, std::int64_t position, std::int64_t samples, std::int64_t tokens);

/// A box that goes from one position of a stage to another, or stays where from == to.
struct Move {
  std::int64_t from = 0, to = 0;
  Box box;
  bool operator==(const Move&) const = default;
};
/// All moves from layout `old_boxes` to `new_boxes` (by position), in one order.
std::vector<Move> moves_between(const std::vector<Box>& old_boxes, const std::vector<Box>& new_boxes);

}  // namespace espalier::runtime
