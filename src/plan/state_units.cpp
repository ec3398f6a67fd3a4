// SPDX-License-Identifier: Apache-2.0
#include "plan/state_units.h"

#include <algorithm>
#include <numeric>

#include "base/division.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "plan/shared_table.h"

namespace espalier {

namespace {

/// Returns the elements of a layer that belong to experts.
Intervals experts_of(const LayerKind& kind) {
  Intervals out;
  std::int64_t first = 0;
  for (const Operator& op : kind.operators) {
    if (op.kind == OperatorKind::expert_linear) out.push_back({first, first + op.parameters});
    first += op.parameters;
  }
  return out;
}

}  // namespace

std::vector<StateUnit> units_of(const Holding& holding, const Model& model) {
  std::vector<StateUnit> out;
  for (std::int32_t l = holding.first_layer; l <= holding.last_layer; ++l) {
    const LayerKind& kind = model.layer(static_cast<std::size_t>(l));
    const Operator& first = kind.operators.front();
    const bool shared = l == 0 && tied_table(model) && first.kind == OperatorKind::embedding && first.split == TpSplit::vocab;
    const std::int64_t all = numbered_elements(kind), table = shared ? numbered_elements(kind, true) : 0;
    if (table > 0) out.push_back({l, {{0, table}}, true});
    if (holding.table_copy) continue;
    const Intervals experts = experts_of(kind), dense = difference({{table, all}}, experts);
    if (all > table && !dense.empty()) out.push_back({l, dense});
    if (!experts.empty()) out.push_back({l, experts, false, true});
  }
  return out;
}

std::vector<std::int64_t> part_bounds(std::int64_t n, std::int64_t shards, const std::vector<std::int64_t>& weights) {
  std::vector<std::int64_t> bounds{0};
  const std::int64_t part = ceil_div(n, shards);
  const auto all = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < shards; ++i) {
    if (!weights.empty()) before += weights[static_cast<std::size_t>(i)];
    bounds.push_back(weights.empty() ? std::min(n, (i + 1) * part)
                                     : static_cast<std::int64_t>(static_cast<__int128>(n) * before / all));
  }
  return bounds;
}

Intervals slice(const Intervals& list, std::int64_t from, std::int64_t to) {
  Intervals out;
  std::int64_t at = 0;
  for (const Interval& piece : list) {
    const std::int64_t first = std::max<std::int64_t>(from - at, 0), last = std::min(to - at, piece.size());
    if (first < last) out.push_back({piece.first + first, piece.first + last});
    at += piece.size();
  }
  return out;
}

UnitShare share_of(const Holding& h, const Model& model, const EngineModel& engine, const StateUnit& unit,
                   std::int64_t position) {
  const LayerKind& kind = model.layer(static_cast<std::size_t>(unit.layer));
  UnitShare share;
  share.held = intersection(share_of(h, model, kind, engine, position).held, unit.elements);
  if (h.strategy.shards_optimizer()) {
    const GroupLayout layout = group_layout(unit.experts ? GroupKind::expert_shard : GroupKind::data_shard, h.strategy,
                                            static_cast<std::int64_t>(h.devices.size()));
    share.shards = layout.size;
    share.shard = (position / layout.stride) % layout.size;
  }
  const std::vector<std::int64_t> bounds = part_bounds(
      elements_of(share.held), share.shards, share.shards > 1 && !unit.experts ? h.state_shares : std::vector<std::int64_t>{});
  const auto at = static_cast<std::size_t>(share.shard);
  share.own = slice(share.held, bounds[at], bounds[at + 1]);
  return share;
}

}  // namespace espalier
