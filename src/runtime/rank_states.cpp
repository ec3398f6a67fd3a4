// SPDX-License-Identifier: Apache-2.0
// Builds the states of a rank: their elements, their groups, and their initial values.
#include <algorithm>

#include "base/invariant.h"
#include "plan/key_value.h"
#include "plan/process_groups.h"
#include "plan/shared_table.h"
#include "runtime/initial.h"
#include "runtime/rank_builder.h"

namespace espalier::runtime {

namespace {

/// Returns where elements lie in a flat list of held ones that contains them, with neighbours joined.
std::vector<Segment> segments_of(const Intervals& held, const Intervals& elements) {
  std::vector<Segment> out;
  std::int64_t before = 0;
  std::size_t next = 0;
  for (const Interval& piece : held) {
    for (; next < elements.size() && elements[next].first < piece.last; ++next) {
      const Segment segment{before + elements[next].first - piece.first, elements[next].size()};
      if (!out.empty() && out.back().offset + out.back().size == segment.offset)
        out.back().size += segment.size;
      else
        out.push_back(segment);
    }
    before += piece.size();
  }
  return out;
}

}  // namespace

/// Finds the sums over tensor groups that the gradients of some segments need.
void RankModel::Builder::find_sums(const Holding& h, std::int64_t position, const LayerKind& kind, const Intervals& elements,
                                   StateShape& shape) const {
  const Strategy& s = h.strategy;
  const Members tensor = s.tp > 1 ? group_of(GroupKind::tensor, s, h.devices) : Members{};
  PartialSum partial, shared;
  std::int64_t first = 0;
  for (const Operator& op : kind.operators) {
    const Interval own{first, first + op.parameters};
    first = own.last;
    if (op.parameters == 0 || op.kind == OperatorKind::expert_linear || intersection({own}, elements).empty()) continue;
    const std::int64_t offset = elements_of(intersection(shape.held, {{0, own.first}}));
    const std::int64_t size = elements_of(intersection(shape.held, {own}));
    const bool sums = sums_partial(s) || (is_head_norm(op) && s.weight_tp() > 1);
    if (sums && op.parameters_unsplit > 0) partial.segments.push_back({offset, op.parameters_unsplit});
    const ReplicatedKeys keys = replicated_keys(kind, op, s.weight_tp());
    if (!keys.any()) continue;
    const std::int64_t on_rank = keys.on_rank() * (op.parameters / op.out);
    shared.segments.push_back({offset + size - on_rank, on_rank});
    shared.group = groups_.find(purpose_of("heads", s.zero), sharing_heads(tensor, keys.kv_heads, position % s.tp));
  }
  if (!partial.segments.empty()) partial.group = groups_.find(purpose_of("partial", s.zero), tensor);
  shape.sums = {partial, shared};
}

/// Finds the sums for partitioned operators. They run over tensor group members that hold the same elements and have
/// seen other samples, tokens or heads.
void RankModel::Builder::find_partition_sums(const Holding& h, std::int64_t position, const LayerKind& kind,
                                             StateShape& shape) const {
  const Members tensor = group_of(GroupKind::tensor, h.strategy, h.devices);
  const auto place = static_cast<int>(place_in_stage(h.strategy, position).t);
  for (const GradientSum& sum : gradient_sums(block_of(kind, h.strategy), kind, place)) {
    const Members members = indicated(tensor, place, sum.indicator);
    shape.sums.push_back({segments_of(shape.held, sum.elements), groups_.find(purpose_of("sums", h.strategy.zero), members)});
  }
}

StateShape RankModel::Builder::shape_of(const Holding& h, std::int64_t position, const StateUnit& unit) const {
  const UnitShare share = share_of(h, model_, engine_, unit, position);
  StateShape shape;
  shape.layer = unit.layer;
  shape.unit = unit;
  shape.zero = h.strategy.zero;
  shape.type = view_.type();
  shape.held = share.held;
  shape.shards = share.shards;
  shape.shard = share.shard;
  if (share.shards > 1 && !unit.experts) shape.shares = h.state_shares;
  if (!h.table_copy && h.pipeline == 0) shape.counted = share.own;
  for (std::int64_t p = 0; p < position; ++p)
    shape.counted = difference(shape.counted, share_of(h, model_, engine_, unit, p).own);
  const Sharing sharing{unit.experts};
  shape.shard_group =
      groups_.find(purpose_of(sharing.shard_purpose(), shape.zero), group_of(sharing.shard(), h.strategy, h.devices));
  shape.replicas = groups_.find(sharing.replica_purpose(), group_of(sharing.replica(), h.strategy, h.devices));
  const LayerKind& kind = model_.layer(static_cast<std::size_t>(unit.layer));
  if (partitions(h.strategy, kind))
    find_partition_sums(h, position, kind, shape);
  else
    find_sums(h, position, kind, unit.elements, shape);
  return shape;
}

std::vector<float> RankModel::Builder::initial_of(std::int32_t layer, const Intervals& held) const {
  if (!view_.initialised) return std::vector<float>(static_cast<std::size_t>(elements_of(held)));
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(elements_of(held)));
  std::int64_t first = 0;
  for (const Operator& op : model_.layer(static_cast<std::size_t>(layer)).operators) {
    for (const Interval& piece : intersection(held, {{first, first + op.parameters}}))
      for (std::int64_t e = piece.first; e < piece.last; ++e)
        out.push_back(initial_value(model_, layer, op, e - first, e, view_.seed));
    first += op.parameters;
  }
  return out;
}

void RankModel::Builder::add_states(const Holding& h, std::int64_t position) {
  for (const StateUnit& unit : units_of(h, model_)) {
    StateShape shape = shape_of(h, position, unit);
    if (shape.held.empty()) continue;
    const std::vector<float> initial = initial_of(unit.layer, shape.held);
    out_.states_.push_back(std::make_unique<State>(std::move(shape), initial));
    State* state = out_.states_.back().get();
    units_[unit.layer].push_back(state);
    if (unit.table && out_.copies_ != nullptr) out_.copied_table_ = state;
  }
  embedding_here_ = embedding_here_ || (h.first_layer == 0 && !h.table_copy);
}

}  // namespace espalier::runtime
