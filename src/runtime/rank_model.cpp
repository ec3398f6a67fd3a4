// SPDX-License-Identifier: Apache-2.0
#include "runtime/rank_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "plan/engine.h"
#include "plan/key_value.h"
#include "plan/process_groups.h"
#include "plan/shared_table.h"
#include "runtime/initial.h"

namespace espalier::runtime {
namespace {

using Members = std::vector<int>;

bool is_table(const Operator& op) { return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab; }

/// Key/value heads of a layer kind; 0: no attention.
std::int64_t key_heads(const LayerKind& kind) {
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::attention) return op.kv_heads;
  return 0;
}

/// Those of a tensor group that hold the key/value head which member `t` holds.
Members sharing_heads(const Members& tensor, std::int64_t heads, std::int64_t t) {
  Members out;
  const auto tp = static_cast<std::int64_t>(tensor.size());
  for (std::int64_t other = 0; other < tp; ++other)
    if (other * heads / tp == t * heads / tp) out.push_back(tensor[static_cast<std::size_t>(other)]);
  return out;
}

/// Gradients that ZeRO scatters in every micro-batch travel between computations; the others on the stream of data parallelism, beside them.
std::string purpose_of(const char* what, ZeroStage zero) {
  return base::cat(what, shards_gradients(zero) ? ".compute" : ".data");
}

bool sums_partial(const Strategy& s) { return s.sp == SequenceParallel::megatron && s.tp > 1; }

}  // namespace

// ---- groups ------------------------------------------------------------------------------------------------------------------

void Groups::make(const std::string& purpose, const Members& members) {
  if (members.size() < 2 || made_.count({purpose, members}) > 0) return;
  std::string name = base::cat(prefix_, "/", purpose);
  for (const int member : members) name += base::cat("-", member);
  made_[{purpose, members}] = meeting_.group(name, members);
}

Communicator* Groups::find(const std::string& purpose, const Members& members) const {
  if (members.size() < 2) return nullptr;
  const auto at = made_.find({purpose, members});
  ESPALIER_CHECK(at != made_.end() && at->second != nullptr);
  return at->second.get();
}

int RankView::rank_of(std::int64_t d) const {
  return static_cast<int>(std::lower_bound(devices.begin(), devices.end(), d) - devices.begin());
}

// ---- building ----------------------------------------------------------------------------------------------------------------

class RankModel::Builder {
 public:
  Builder(const RankView& view, const Program& program, Groups& groups, RankModel& out)
      : view_(view),
        model_(*view.model),
        program_(program),
        groups_(groups),
        out_(out),
        engine_(*find_engine(view.plan->engine)) {}

  void build();

 private:
  struct Unit {
    State* state = nullptr;
    Interval elements;  ///< the operators that the state covers, by number
  };

  void make_groups(const std::vector<Holding>& holdings);
  void make_groups_of(const Holding& holding);
  void make_copies();
  void add_states(const Holding& holding, std::int64_t position);
  void add_unit(const Holding& holding, std::int64_t position, std::int32_t layer, Interval elements);
  StateShape shape_of(const Holding& holding, std::int64_t position, std::int32_t layer, Interval elements) const;
  void find_sums(const Holding& holding, std::int64_t position, const LayerKind& kind, Interval elements,
                 StateShape& shape) const;
  std::vector<float> initial_of(std::int32_t layer, const Intervals& held) const;
  void add_layer(const WorkRange& range, std::int32_t index, std::int64_t position, bool recomputed);
  Parameters parameters_of(std::int32_t layer, const Operator& op, std::int64_t first, std::vector<State*>& used) const;
  Place place_of(const Strategy& s, std::int64_t position) const;
  void settle();

  /// The group of this kind that a rank is in.
  Members group_of(GroupKind kind, const Strategy& s, const std::vector<std::int64_t>& devices) const;
  Members ranks_of(const std::vector<std::int64_t>& devices) const;

  const RankView& view_;
  const Model& model_;
  const Program& program_;
  Groups& groups_;
  RankModel& out_;
  const EngineModel& engine_;
  std::vector<std::int64_t> stage_devices_;          // of this rank's stage
  std::map<std::int32_t, std::vector<Unit>> units_;  // by layer; a table copy: layer 0
  bool embedding_here_ = false;
};

Members RankModel::Builder::ranks_of(const std::vector<std::int64_t>& devices) const {
  Members out;
  for (const std::int64_t device : devices) out.push_back(view_.rank_of(device));
  return out;
}

Members RankModel::Builder::group_of(GroupKind kind, const Strategy& s, const std::vector<std::int64_t>& devices) const {
  for (const auto& group : process_groups(kind, s, devices))
    if (std::find(group.begin(), group.end(), view_.device) != group.end()) return ranks_of(group);
  ESPALIER_CHECK(false);
  return {};
}

void RankModel::Builder::make_groups_of(const Holding& h) {
  const Strategy& s = h.strategy;
  for (const auto& group : process_groups(GroupKind::tensor, s, h.devices)) {
    const Members members = ranks_of(group);
    groups_.make("tensor", members);
    if (sums_partial(s)) groups_.make(purpose_of("partial", s.zero), members);
    if (s.weight_tp() == 1) continue;
    for (std::int32_t l = h.first_layer; l <= h.last_layer; ++l) {
      const std::int64_t heads = key_heads(model_.layer(static_cast<std::size_t>(l)));
      for (std::int64_t t = 0; heads > 0 && heads < s.tp && t < s.tp; ++t)
        groups_.make(purpose_of("heads", s.zero), sharing_heads(members, heads, t));
    }
  }
  for (const auto& group : process_groups(GroupKind::data_shard, s, h.devices))
    groups_.make(purpose_of("shard", s.zero), ranks_of(group));
  for (const auto& group : process_groups(GroupKind::data_replica, s, h.devices)) groups_.make("replica", ranks_of(group));
}

void RankModel::Builder::make_groups(const std::vector<Holding>& holdings) {
  for (const Holding& holding : holdings) make_groups_of(holding);
  for (ProcessGroupId id(0); id.value < static_cast<std::int32_t>(program_.groups.size()); ++id.value) {
    const ProcessGroup& group = program_.groups[id];
    if (group.kind != GroupKind::table_copies) continue;
    Members members;
    for (const std::int32_t r : group.members)
      members.push_back(view_.rank_of(program_.ranks[static_cast<std::size_t>(r)].device()));
    groups_.make("copies", members);
    if (std::find(members.begin(), members.end(), view_.rank_of(view_.device)) != members.end())
      out_.copies_ = groups_.find("copies", members);
  }
}

/// Sums over tensor groups that the gradients of some segments need.
void RankModel::Builder::find_sums(const Holding& h, std::int64_t position, const LayerKind& kind, Interval elements,
                                   StateShape& shape) const {
  const Strategy& s = h.strategy;
  const Members tensor = s.tp > 1 ? group_of(GroupKind::tensor, s, h.devices) : Members{};
  std::int64_t first = 0;
  for (const Operator& op : kind.operators) {
    const Interval own{first, first + op.parameters};
    first = own.last;
    if (op.parameters == 0 || intersection({own}, {elements}).empty()) continue;
    const std::int64_t offset = elements_of(intersection(shape.held, {{0, own.first}}));
    const std::int64_t size = elements_of(intersection(shape.held, {own}));
    if (sums_partial(s) && op.parameters_unsplit > 0) shape.partial.push_back({offset, op.parameters_unsplit});
    const ReplicatedKeys keys = replicated_keys(kind, op, s.weight_tp());
    if (!keys.any()) continue;
    const std::int64_t shared = keys.on_rank() * (op.parameters / op.out);
    shape.shared_heads.push_back({offset + size - shared, shared});
    shape.heads = groups_.find(purpose_of("heads", s.zero), sharing_heads(tensor, keys.kv_heads, position % s.tp));
  }
  if (!shape.partial.empty()) shape.tensor = groups_.find(purpose_of("partial", s.zero), tensor);
}

StateShape RankModel::Builder::shape_of(const Holding& h, std::int64_t position, std::int32_t layer, Interval elements) const {
  const LayerKind& kind = model_.layer(static_cast<std::size_t>(layer));
  const GroupLayout layout = group_layout(GroupKind::data_shard, h.strategy, static_cast<std::int64_t>(h.devices.size()));
  const auto held_by = [&](std::int64_t p) { return intersection(share_of(h, model_, kind, engine_, p).held, {elements}); };
  const auto shard_of = [&](std::int64_t p) { return (p / layout.stride) % layout.size; };
  StateShape shape;
  shape.layer = layer;
  shape.zero = h.strategy.zero;
  shape.held = held_by(position);
  if (shards_optimizer(shape.zero)) {
    shape.shards = layout.size;
    shape.shard = shard_of(position);
  }
  if (!h.table_copy) shape.counted = part_of(shape.held, shape.shards, shape.shard);
  for (std::int64_t p = 0; p < position; ++p)
    shape.counted = difference(shape.counted, part_of(held_by(p), shape.shards, shape.shards == 1 ? 0 : shard_of(p)));
  shape.shard_group = groups_.find(purpose_of("shard", shape.zero), group_of(GroupKind::data_shard, h.strategy, h.devices));
  shape.replicas = groups_.find("replica", group_of(GroupKind::data_replica, h.strategy, h.devices));
  find_sums(h, position, kind, elements, shape);
  return shape;
}

std::vector<float> RankModel::Builder::initial_of(std::int32_t layer, const Intervals& held) const {
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

void RankModel::Builder::add_unit(const Holding& h, std::int64_t position, std::int32_t layer, Interval elements) {
  StateShape shape = shape_of(h, position, layer, elements);
  if (shape.held.empty()) return;
  const std::vector<float> initial = initial_of(layer, shape.held);
  out_.states_.push_back(std::make_unique<State>(std::move(shape), initial));
  units_[layer].push_back({out_.states_.back().get(), elements});
}

void RankModel::Builder::add_states(const Holding& h, std::int64_t position) {
  for (std::int32_t l = h.first_layer; l <= h.last_layer; ++l) {
    const LayerKind& kind = model_.layer(static_cast<std::size_t>(l));
    const std::int64_t all = numbered_elements(kind);
    const std::int64_t table =
        l == 0 && tied_table(model_) && is_table(kind.operators.front()) ? numbered_elements(kind, true) : 0;
    if (table > 0) {
      add_unit(h, position, l, {0, table});
      if (out_.copies_ != nullptr) out_.copied_table_ = out_.states_.back().get();
    }
    if (!h.table_copy && all > table) add_unit(h, position, l, {table, all});
    embedding_here_ = embedding_here_ || (l == 0 && !h.table_copy);
  }
}

Place RankModel::Builder::place_of(const Strategy& s, std::int64_t position) const {
  const Sequence& sequence = view_.plan->training.sequence;
  Place place;
  place.architecture = view_.architecture;
  place.tokens = sequence.main;
  place.own_tokens = box_of(s, position, 1, place.tokens).tokens;
  Communicator* tensor = s.tp > 1 ? groups_.find("tensor", group_of(GroupKind::tensor, s, stage_devices_)) : nullptr;
  if (s.sp == SequenceParallel::ulysses) {
    place.sequence = tensor;
  } else {
    place.tensor = tensor;
    place.tp = s.tp;
    place.t = standing_of(s, position).t;
  }
  place.sequence_parallel = s.sp == SequenceParallel::megatron;
  place.recompute_attention = s.recompute.kind == RecomputeKind::selective;
  place.loss_scale = 1 / static_cast<double>(view_.plan->training.global_batch * place.tokens);
  return place;
}

/// Where the parameters of an operator lie; those of a tied output in the state of the table.
Parameters RankModel::Builder::parameters_of(std::int32_t layer, const Operator& op, std::int64_t first,
                                             std::vector<State*>& used) const {
  const bool shared = op.split == TpSplit::vocab && op.parameters == 0 && op.kind == OperatorKind::linear;
  if (op.parameters == 0 && !shared) return {};
  const Interval own = shared ? Interval{0, numbered_elements(model_.layer(0), true)} : Interval{first, first + op.parameters};
  for (const Unit& unit : units_.at(shared ? 0 : layer)) {
    if (own.first < unit.elements.first || own.last > unit.elements.last) continue;
    const Intervals held = intersection(unit.state->shape().held, {own});
    Parameters out{unit.state, {elements_of(intersection(unit.state->shape().held, {{0, own.first}})), elements_of(held)}, 0};
    const std::int64_t width = (own.last - own.first) / model_.vocabulary;
    if (op.split == TpSplit::vocab && !held.empty()) out.first_row = (held.front().first - own.first) / width;
    if (std::find(used.begin(), used.end(), unit.state) == used.end()) used.push_back(unit.state);
    return out;
  }
  ESPALIER_CHECK(false);
  return {};
}

void RankModel::Builder::add_layer(const WorkRange& range, std::int32_t index, std::int64_t position, bool recomputed) {
  const LayerKind& kind = model_.layer(static_cast<std::size_t>(index));
  const Strategy& s = program_.strategies[static_cast<std::size_t>(range.strategy)];
  std::vector<Parameters> parameters;
  std::vector<State*> used;
  std::int64_t first = 0, row = 0;
  for (const Operator& op : kind.operators) {
    parameters.push_back(parameters_of(index, op, first, used));
    if (op.kind == OperatorKind::cross_entropy) parameters.back().first_row = row;
    row = parameters.back().first_row;
    first += op.parameters;
  }
  out_.layers_[index] = std::make_unique<Layer>(kind, parameters, used, place_of(s, position), recomputed);
}

/// A table's gradients are complete with the embedding's chunk; those of a copy with the head's. Where both chunks are here and differ, only
/// when all are through.
void RankModel::Builder::settle() {
  for (const auto& [layer, units] : units_) {
    const auto head = static_cast<std::int32_t>(model_.layers.size()) - 1;
    for (const Unit& unit : units) {
      const bool table = tied_table(model_) && layer == 0 && unit.elements.first == 0;
      std::int32_t with = layer;
      if (table && !embedding_here_) with = head;
      if (table && embedding_here_ && out_.layers_.count(head) > 0 && program_.schedule().stages > 1) continue;
      out_.settled_[with].push_back(unit.state);
    }
  }
}

void RankModel::Builder::build() {
  const auto holdings = holdings_of(*view_.plan, model_);
  ESPALIER_CHECK(holdings.ok());
  make_groups(*holdings);
  const auto position_in = [&](const std::vector<std::int64_t>& devices) {
    return std::find(devices.begin(), devices.end(), view_.device) - devices.begin();
  };
  for (const Holding& h : *holdings) {
    const auto position = position_in(h.devices);
    if (position == static_cast<std::ptrdiff_t>(h.devices.size())) continue;
    stage_devices_ = h.devices;
    add_states(h, position);
  }
  const auto position = position_in(stage_devices_);
  for (const Work& work : program_.works) {
    const auto rank = std::find_if(program_.ranks.begin(), program_.ranks.end(),
                                   [&](const RankClass& r) { return r.device() == view_.device; });
    if (work.stage != rank->stage || work.phase != InstructionKind::forward) continue;
    for (std::int32_t r = work.ranges_begin; r < work.ranges_end; ++r) {
      const WorkRange& range = program_.ranges[static_cast<std::size_t>(r)];
      std::int32_t blocks = 0;
      for (std::int32_t l = range.first; l <= range.last; ++l) {
        const bool block = model_.layer(static_cast<std::size_t>(l)).role == LayerRole::block;
        add_layer(range, l, position, block && blocks < range.recomputed_blocks);
        if (block) ++blocks;
      }
    }
  }
  settle();
}

// ---- the model ---------------------------------------------------------------------------------------------------------------

RankModel::RankModel(const RankView& view, const Program& program, Groups& groups) {
  Builder(view, program, groups, *this).build();
}
RankModel::~RankModel() = default;

Layer& RankModel::layer(std::int32_t index) { return *layers_.at(index); }

std::vector<State*> RankModel::states() const {
  std::vector<State*> out;
  for (const auto& state : states_) out.push_back(state.get());
  return out;
}

std::vector<State*> RankModel::settled_by(std::int32_t layer) const {
  const auto at = settled_.find(layer);
  return at == settled_.end() ? std::vector<State*>{} : at->second;
}

}  // namespace espalier::runtime
