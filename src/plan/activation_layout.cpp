// SPDX-License-Identifier: Apache-2.0
#include "plan/activation_layout.h"

#include <algorithm>
#include <numeric>

#include "base/invariant.h"
#include "partition/slices.h"
#include "plan/operator_partition.h"

namespace espalier {
namespace {

/// Returns the slice of a dimension that place `t` of a tensor group has under a sequence.
Extent slice_of(const partition::PartitionSequence& sequence, char dimension, std::int64_t t, const Extent& whole) {
  const std::int64_t slices = partition::slices(sequence, dimension);
  const std::int64_t index = partition::slice_index(sequence, dimension, partition::Phase::forward, static_cast<int>(t), 0);
  ESPALIER_CHECK(whole.size() % slices == 0);
  const std::int64_t size = whole.size() / slices;
  return {whole.first + index * size, whole.first + (index + 1) * size};
}

/// Holds the positions with equal boxes, in the order in which they were found.
struct ActivationCell {
  ActivationBox box;
  std::vector<std::int64_t> holders;
};

std::vector<ActivationCell> cells_of(const std::vector<ActivationBox>& boxes) {
  std::vector<ActivationCell> cells;
  for (std::size_t p = 0; p < boxes.size(); ++p) {
    const auto same = std::find_if(cells.begin(), cells.end(), [&](const ActivationCell& cell) { return cell.box == boxes[p]; });
    if (same == cells.end())
      cells.push_back({boxes[p], {static_cast<std::int64_t>(p)}});
    else
      same->holders.push_back(static_cast<std::int64_t>(p));
  }
  return cells;
}

}  // namespace

PlaceInStage place_in_stage(const Strategy& s, std::int64_t position) {
  const std::int64_t t = position % s.tp, rest = position / s.tp;
  if (s.order == RankOrder::tp_dp_cp_pp) return {t, rest / s.dp, rest % s.dp};
  return {t, rest % s.cp, rest / s.cp};
}

std::int64_t size_of(const TokenRuns& runs) {
  std::int64_t tokens = 0;
  for (const Extent& run : runs) tokens += run.size();
  return tokens;
}

TokenRuns part_of(const TokenRuns& runs, Extent part) {
  TokenRuns out;
  std::int64_t at = 0;
  for (const Extent& run : runs) {
    const Extent here = overlap(part, {at, at + run.size()});
    if (here.size() > 0) out.push_back({run.first + here.first - at, run.first + here.last - at});
    at += run.size();
  }
  return out;
}

TokenRuns overlap(const TokenRuns& a, const TokenRuns& b) {
  TokenRuns out;
  for (const Extent& one : a)
    for (const Extent& other : b)
      if (const Extent both = overlap(one, other); both.size() > 0) out.push_back(both);
  return out;
}

TokenRuns tokens_of_context(const Strategy& s, std::int64_t c, std::int64_t tokens) {
  const std::int64_t slices = 2 * std::int64_t{s.cp};
  if (s.cp == 1) return {{0, tokens}};
  if (s.cp_kind == ContextParallelKind::all_to_all || tokens % slices != 0) return {{c * tokens / s.cp, (c + 1) * tokens / s.cp}};
  const std::int64_t size = tokens / slices, late = (slices - 1 - c) * size;
  if (c + 1 == s.cp) return {{c * size, late + size}};
  return {{c * size, (c + 1) * size}, {late, late + size}};
}

Extent samples_of_replica(const ActivationShape& shape, std::int64_t replica) {
  if (shape.replicas.empty()) return {replica * shape.samples, (replica + 1) * shape.samples};
  const auto own = shape.replicas.begin() + replica;
  const std::int64_t first = std::accumulate(shape.replicas.begin(), own, std::int64_t{0});
  return {first, first + *own};
}

ActivationBox box_of(const Strategy& s, std::int64_t position, const ActivationShape& shape, bool block) {
  const PlaceInStage at = place_in_stage(s, position);
  ActivationBox box{samples_of_replica(shape, at.d), tokens_of_context(s, at.c, shape.tokens), {0, shape.features}};
  const std::int64_t tokens = size_of(box.tokens);
  if (s.sp != SequenceParallel::none) box.tokens = part_of(box.tokens, {at.t * tokens / s.tp, (at.t + 1) * tokens / s.tp});
  if (s.partition.empty() || !block) return box;
  const auto& operators = s.partition.operators();
  ESPALIER_CHECK(operators.ok());
  const partition::PartitionSequence& boundary = operators->back().sequence;
  return {slice_of(boundary, 'B', at.t, box.samples),
          {slice_of(boundary, 'M', at.t, {0, shape.tokens})},
          slice_of(boundary, 'N', at.t, box.features)};
}

std::vector<ActivationBox> boxes_of(const Strategy& s, std::int64_t positions, const ActivationShape& shape, bool block) {
  std::vector<ActivationBox> boxes;
  for (std::int64_t p = 0; p < positions; ++p) boxes.push_back(box_of(s, p, shape, block));
  return boxes;
}

std::vector<BoxMove> moves_between(const std::vector<ActivationBox>& old_boxes, const std::vector<ActivationBox>& new_boxes,
                                   bool same_stage) {
  const std::vector<ActivationCell> cells = cells_of(old_boxes);
  std::vector<BoxMove> moves;
  for (std::size_t p = 0; p < new_boxes.size(); ++p) {
    const auto to = static_cast<std::int64_t>(p);
    for (const ActivationCell& cell : cells) {
      const ActivationBox& wanted = new_boxes[p];
      const ActivationBox part{overlap(cell.box.samples, wanted.samples), overlap(cell.box.tokens, wanted.tokens),
                               overlap(cell.box.features, wanted.features)};
      if (part.samples.size() <= 0 || part.tokens.empty() || part.features.size() <= 0) continue;
      const bool own = same_stage && std::find(cell.holders.begin(), cell.holders.end(), to) != cell.holders.end();
      moves.push_back({own ? to : cell.holders[p % cell.holders.size()], to, part});
    }
  }
  return moves;
}

}  // namespace espalier
