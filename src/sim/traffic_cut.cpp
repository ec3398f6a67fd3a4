// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic_cut.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/invariant.h"

namespace espalier::sim {
namespace {

/// Returns the part of a piece in [begin, end) of its instruction, counted from `begin`, with the same share of its
/// bytes. The result has no flows if that part is empty.
TrafficPiece cut_piece(const TrafficPiece& piece, std::int64_t begin, std::int64_t end) {
  const std::int64_t whole = piece.activity.duration_ns;
  const std::int64_t from = std::max(piece.offset_ns, begin), until = std::min(piece.offset_ns + whole, end);
  TrafficPiece cut{from - begin, std::min(piece.due_ns, end) - begin, {}};
  if (until <= from) return cut;
  if (until - from == whole) {
    cut.activity = piece.activity;
    return cut;
  }
  const double share = static_cast<double>(until - from) / static_cast<double>(whole);
  const auto work = static_cast<double>(whole - piece.activity.fixed_ns);
  cut.activity.duration_ns = until - from;
  cut.activity.fixed_ns =
      cut.activity.duration_ns - std::min(cut.activity.duration_ns, static_cast<std::int64_t>(std::ceil(work * share)));
  cut.activity.flows = piece.activity.flows;
  for (Flow& flow : cut.activity.flows) flow.bytes = static_cast<std::int64_t>(static_cast<double>(flow.bytes) * share);
  return cut;
}

}  // namespace

Pieces cut_pieces(const Pieces& pieces, std::int64_t begin_ns, std::int64_t end_ns) {
  ESPALIER_CHECK(begin_ns <= end_ns);
  Pieces cut;
  for (const TrafficPiece& piece : pieces) {
    TrafficPiece here = cut_piece(piece, begin_ns, end_ns);
    if (!here.activity.flows.empty()) cut.push_back(std::move(here));
  }
  return cut;
}

}  // namespace espalier::sim
