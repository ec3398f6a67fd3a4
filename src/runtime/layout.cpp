// SPDX-License-Identifier: Apache-2.0
#include "runtime/layout.h"

#include <algorithm>

namespace espalier::runtime {
namespace {

Span overlap(const Span& a, const Span& b) { return {std::max(a.first, b.first), std::min(a.last, b.last)}; }

/// Positions that hold equal boxes, first come first.
struct Cell {
  Box box;
  std::vector<std::int64_t> holders;
};

std::vector<Cell> cells_of(const std::vector<Box>& boxes) {
  std::vector<Cell> cells;
  for (std::size_t p = 0; p < boxes.size(); ++p) {
    const auto same = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) { return cell.box == boxes[p]; });
    if (same == cells.end())
      cells.push_back({boxes[p], {static_cast<std::int64_t>(p)}});
    else
      same->holders.push_back(static_cast<std::int64_t>(p));
  }
  return cells;
}

}  // namespace

Standing standing_of(const Strategy& s, std::int64_t position) {
  const std::int64_t t = position % s.tp, rest = position / s.tp;
  return {t, s.order == RankOrder::tp_dp_cp_pp ? rest % s.dp : rest / s.cp};
}

Box box_of(const Strategy& s, std::int64_t position, std::int64_t samples, std::int64_t tokens) {
  const Standing at = standing_of(s, position);
  Box box{{at.d * samples, (at.d + 1) * samples}, {0, tokens}};
  if (s.sp != SequenceParallel::none) box.tokens = {at.t * tokens / s.tp, (at.t + 1) * tokens / s.tp};
  return box;
}

std::vector<Move> moves_between(const std::vector<Box>& old_boxes, const std::vector<Box>& new_boxes) {
  const std::vector<Cell> cells = cells_of(old_boxes);
  std::vector<Move> moves;
  for (std::size_t p = 0; p < new_boxes.size(); ++p) {
    const auto to = static_cast<std::int64_t>(p);
    for (const Cell& cell : cells) {
      const Box part{overlap(cell.box.samples, new_boxes[p].samples), overlap(cell.box.tokens, new_boxes[p].tokens)};
      if (part.samples.size() <= 0 || part.tokens.size() <= 0) continue;
      const bool own = std::find(cell.holders.begin(), cell.holders.end(), to) != cell.holders.end();
      moves.push_back({own ? to : cell.holders[p % cell.holders.size()], to, part});
    }
  }
  return moves;
}

}  // namespace espalier::runtime
