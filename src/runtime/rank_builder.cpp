// SPDX-License-Identifier: Apache-2.0
#include "runtime/rank_builder.h"

#include <algorithm>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/process_groups.h"
#include "plan/shared_table.h"
#include "runtime/partitioned_layer.h"

namespace espalier::runtime {

bool is_head_norm(const Operator& op) { return op.kind == OperatorKind::norm && op.split == TpSplit::heads; }

bool is_table(const Operator& op) { return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab; }

std::int64_t key_heads(const LayerKind& kind) {
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::attention) return op.kv_heads;
  return 0;
}

bool has_experts(const LayerKind& kind) {
  return std::any_of(kind.operators.begin(), kind.operators.end(),
                     [](const Operator& op) { return op.kind == OperatorKind::expert_linear; });
}

bool has_head_norms(const LayerKind& kind) { return std::any_of(kind.operators.begin(), kind.operators.end(), is_head_norm); }

Members sharing_heads(const Members& tensor, std::int64_t heads, std::int64_t t) {
  Members out;
  const auto tp = static_cast<std::int64_t>(tensor.size());
  for (std::int64_t other = 0; other < tp; ++other)
    if (other * heads / tp == t * heads / tp) out.push_back(tensor[static_cast<std::size_t>(other)]);
  return out;
}

std::string purpose_of(const char* what, ZeroStage zero) {
  return base::cat(what, shards_gradients(zero) ? ".compute" : ".data");
}

bool partitions(const Strategy& s, const LayerKind& kind) { return !s.partition.empty() && kind.role == LayerRole::block; }

Members indicated(const Members& tensor, int place, partition::GroupIndicator indicator) {
  Members out;
  for (const int other : partition::group_of(place, indicator)) out.push_back(tensor[static_cast<std::size_t>(other)]);
  return out;
}

bool sums_partial(const Strategy& s) { return s.sp == SequenceParallel::megatron && s.tp > 1; }

// ---- groups -------------------------------------------------------------------------------------------------------

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

/// Makes the groups that split tokens, those that split weights, and those that sum gradients in them.
void RankModel::Builder::make_tensor_groups(const Holding& h) {
  const Strategy& s = h.strategy;
  bool head_norms = false;
  for (std::int32_t l = h.first_layer; l <= h.last_layer; ++l)
    head_norms = head_norms || has_head_norms(model_.layer(static_cast<std::size_t>(l)));
  for (const auto& group : process_groups(GroupKind::context, s, h.devices)) groups_.make("context", ranks_of(group));
  for (const auto& group : process_groups(GroupKind::tensor, s, h.devices)) {
    const Members members = ranks_of(group);
    groups_.make("tensor", members);
    if (sums_partial(s) || (head_norms && s.weight_tp() > 1)) groups_.make(purpose_of("partial", s.zero), members);
    if (s.weight_tp() == 1) continue;
    for (std::int32_t l = h.first_layer; l <= h.last_layer; ++l) {
      const std::int64_t heads = key_heads(model_.layer(static_cast<std::size_t>(l)));
      for (std::int64_t t = 0; heads > 0 && heads < s.tp && t < s.tp; ++t)
        groups_.make(purpose_of("heads", s.zero), sharing_heads(members, heads, t));
    }
  }
}

/// Makes the groups that pass tiles round, and those that sum parts of tiles or of gradients.
void RankModel::Builder::make_partition_groups(const Holding& h) {
  for (std::int32_t l = h.first_layer; l <= h.last_layer; ++l) {
    const LayerKind& kind = model_.layer(static_cast<std::size_t>(l));
    if (!partitions(h.strategy, kind)) continue;
    const SpreadBlock block = block_of(kind, h.strategy);
    for (const auto& group : process_groups(GroupKind::operators, h.strategy, h.devices)) {
      const Members tensor = ranks_of(group);
      groups_.make("operators", tensor);
      for (int place = 0; place < block.places(); ++place) {
        for (const partition::GroupIndicator indicator : summed_indicators(block))
          groups_.make("operators", indicated(tensor, place, indicator));
        for (const GradientSum& sum : gradient_sums(block, kind, place))
          groups_.make(purpose_of("sums", h.strategy.zero), indicated(tensor, place, sum.indicator));
      }
    }
  }
}

void RankModel::Builder::make_expert_groups(const Holding& h) {
  const auto make = [&](const std::string& purpose, GroupKind kind) {
    for (const auto& group : process_groups(kind, h.strategy, h.devices)) groups_.make(purpose, ranks_of(group));
  };
  const Sharing experts{true};
  make("experts", GroupKind::expert);
  make("expert_tensor", GroupKind::expert_tensor);
  make(purpose_of(experts.shard_purpose(), h.strategy.zero), experts.shard());
  make(experts.replica_purpose(), experts.replica());
}

void RankModel::Builder::make_groups_of(const Holding& h) {
  make_tensor_groups(h);
  make_partition_groups(h);
  const Sharing dense;
  for (const auto& group : process_groups(dense.shard(), h.strategy, h.devices))
    groups_.make(purpose_of(dense.shard_purpose(), h.strategy.zero), ranks_of(group));
  for (const auto& group : process_groups(dense.replica(), h.strategy, h.devices))
    groups_.make(dense.replica_purpose(), ranks_of(group));
  for (std::int32_t l = h.first_layer; l <= h.last_layer; ++l) {
    if (h.table_copy || !has_experts(model_.layer(static_cast<std::size_t>(l)))) continue;
    make_expert_groups(h);
    break;
  }
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

// ---- layers -------------------------------------------------------------------------------------------------------

OperatorPlace RankModel::Builder::place_of(const Strategy& s, std::int64_t position, bool experts) const {
  const Sequence& sequence = view_.plan->training.sequence;
  OperatorPlace place;
  place.architecture = view_.architecture;
  place.type = view_.type();
  place.tokens = sequence.main;
  place.own_tokens = box_of(s, position, {1, {}, place.tokens, 1}, false).tokens;
  const PlaceInStage at = place_in_stage(s, position);
  place.context_tokens = tokens_of_context(s, at.c, place.tokens);
  place.key_tokens = {place.context_tokens};
  if (s.cp > 1) {
    place.context = groups_.find("context", group_of(GroupKind::context, s, stage_devices_));
    place.ring = s.cp_kind == ContextParallelKind::ring;
    place.key_tokens.clear();
    for (std::int64_t c = 0; c < (place.ring ? s.cp : 1); ++c)
      place.key_tokens.push_back(place.ring ? tokens_of_context(s, c, place.tokens) : TokenRuns{{0, place.tokens}});
  }
  Communicator* tensor = s.tp > 1 ? groups_.find("tensor", group_of(GroupKind::tensor, s, stage_devices_)) : nullptr;
  if (s.sp == SequenceParallel::ulysses) {
    place.sequence = tensor;
  } else {
    place.tensor = tensor;
    place.tp = s.tp;
    place.t = at.t;
  }
  place.ep = s.ep;
  if (experts && s.ep > 1) place.experts = groups_.find("experts", group_of(GroupKind::expert, s, stage_devices_));
  if (experts && s.etp > 1)
    place.expert_tensor = groups_.find("expert_tensor", group_of(GroupKind::expert_tensor, s, stage_devices_));
  if (s.sp == SequenceParallel::none && s.etp == 1) place.expert_share = 1 / static_cast<double>(s.tp);
  place.sequence_parallel = s.sp == SequenceParallel::megatron;
  place.recompute_attention = s.recompute.kind == RecomputeKind::selective;
  place.loss_scale = 1 / static_cast<double>(view_.plan->training.global_batch * place.tokens);
  return place;
}

/// Returns where the parameters of an operator lie. A tied output uses the state of the table.
Parameters RankModel::Builder::parameters_of(std::int32_t layer, const Operator& op, std::int64_t first,
                                             std::vector<State*>& used) const {
  const bool shared = op.split == TpSplit::vocab && op.parameters == 0 && op.kind == OperatorKind::linear;
  if (op.parameters == 0 && !shared) return {};
  const Interval own = shared ? Interval{0, numbered_elements(model_.layer(0), true)} : Interval{first, first + op.parameters};
  for (State* state : units_.at(shared ? 0 : layer)) {
    if (elements_of(intersection(state->shape().unit.elements, {own})) != own.size()) continue;
    const Intervals held = intersection(state->shape().held, {own});
    Parameters out{state, {elements_of(intersection(state->shape().held, {{0, own.first}})), elements_of(held)}, 0};
    const std::int64_t width = (own.last - own.first) / model_.vocabulary;
    if (op.split == TpSplit::vocab && !held.empty()) out.first_row = (held.front().first - own.first) / width;
    if (std::find(used.begin(), used.end(), state) == used.end()) used.push_back(state);
    return out;
  }
  ESPALIER_CHECK(false);
  return {};
}

SpreadBlock RankModel::Builder::block_of(const LayerKind& kind, const Strategy& s, std::int64_t samples) const {
  const std::int64_t any = std::int64_t{1} << partition::kMaxBits;
  auto block = spread_block(view_.plan->training.sequence, engine_, kind, samples > 0 ? samples : any, s);
  ESPALIER_CHECK(block.ok());
  return std::move(*block);
}

std::unique_ptr<Layer> RankModel::Builder::partitioned(const LayerKind& kind, const std::vector<Parameters>& parameters,
                                                       std::vector<State*> states, const WorkRange& range, std::int32_t layer,
                                                       std::int64_t position, bool recomputed) const {
  const Strategy& s = program_.strategies[static_cast<std::size_t>(range.strategy)];
  const PlaceInStage at = place_in_stage(s, position);
  SpreadBlock block = block_of(kind, s, samples_of_replica({range.samples, rank_.samples_per_replica, 1, 1}, at.d).size());
  const Members tensor = group_of(GroupKind::operators, s, stage_devices_);
  TilePlace place;
  place.place = static_cast<int>(at.t);
  place.group = groups_.find("operators", tensor);
  for (const partition::GroupIndicator indicator : summed_indicators(block))
    place.sums[indicator] = groups_.find("operators", indicated(tensor, place.place, indicator));
  place.architecture = view_.architecture;
  place.layer = layer;
  place.clock = view_.clock;
  return std::make_unique<PartitionedLayer>(kind, std::move(block), parameters, std::move(states), place, recomputed);
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
  if (partitions(s, kind)) {
    out_.layers_[index] = partitioned(kind, parameters, used, range, index, position, recomputed);
    return;
  }
  OperatorPlace place = place_of(s, position, has_experts(kind));
  place.layer = index;
  place.clock = view_.clock;
  for (const Operator& op : kind.operators)
    place.works.push_back(profile::work_on_rank(kind, op, s, model_.vocabulary, place.tokens, 1));
  out_.layers_[index] = std::make_unique<Layer>(kind, parameters, used, place, recomputed);
}

/// Decides when gradients are complete. A table's gradients are complete with the embedding's chunk, a copy's with
/// the head's. Where this rank has both chunks and they differ, they are complete only after all passes.
void RankModel::Builder::settle() {
  for (const auto& [layer, units] : units_) {
    const auto head = static_cast<std::int32_t>(model_.layers.size()) - 1;
    for (State* state : units) {
      const bool table = state->shape().unit.table;
      std::int32_t with = layer;
      if (table && !embedding_here_) with = head;
      if (table && embedding_here_ && out_.layers_.count(head) > 0 && program_.structure(rank_).schedule.stages > 1) continue;
      out_.settled_[with].push_back(state);
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
  const PipelineProgram& pipeline = program_.pipelines[static_cast<std::size_t>(rank_.pipeline)];
  for (std::int32_t w = 0; w < pipeline.structure.works(); ++w) {
    const Work& work = program_.works[WorkId(pipeline.first_work + w)];
    if (work.stage != rank_.stage || work.phase != InstructionKind::forward) continue;
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

}  // namespace espalier::runtime
