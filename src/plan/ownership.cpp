// SPDX-License-Identifier: Apache-2.0
#include "plan/ownership.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/block_tiles.h"
#include "plan/engine.h"
#include "plan/key_value.h"
#include "plan/process_groups.h"
#include "plan/shared_table.h"

namespace espalier {
namespace {

void append(Intervals& set, Interval more) {
  if (more.size() <= 0) return;
  if (!set.empty() && set.back().last == more.first) {
    set.back().last = more.last;
    return;
  }
  set.push_back(more);
}

/// Appends part `index` of `parts` equal parts of [first, first + n), the last ones short or empty.
void append_part(Intervals& set, std::int64_t first, std::int64_t n, std::int64_t index, std::int64_t parts) {
  const std::int64_t size = ceil_div(n, parts);
  append(set, {first + std::min(n, index * size), first + std::min(n, (index + 1) * size)});
}

bool is_table(const Operator& op) { return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab; }

/// Holds the place of a rank in its groups.
struct GroupPlace {
  std::int64_t tp = 1, t = 0;             // tensor group of the weights
  std::int64_t ep = 1, e = 0;             // expert group
  std::int64_t etp = 1, x = 0;            // expert tensor group
  std::int64_t shard = 1, i = 0;          // shard group of dense states
  std::int64_t expert_shard = 1, xi = 0;  // shard group of expert states
};

GroupPlace place_of(const Strategy& s, std::int64_t devices, std::int64_t position) {
  const auto index = [&](GroupKind kind) {
    const GroupLayout layout = group_layout(kind, s, devices);
    return (position / layout.stride) % layout.size;
  };
  GroupPlace p;
  p.tp = s.weight_tp();
  p.t = p.tp == 1 ? 0 : index(GroupKind::tensor);
  p.ep = s.ep;
  p.e = index(GroupKind::expert);
  p.etp = s.etp;
  p.x = index(GroupKind::expert_tensor);
  if (!s.shards_optimizer()) return p;
  p.shard = s.shard;
  p.i = index(GroupKind::data_shard);
  p.expert_shard = group_layout(GroupKind::expert_shard, s, devices).size;
  p.xi = index(GroupKind::expert_shard);
  return p;
}

/// Appends whole rows of the vocabulary; returns the number of elements that pad the rank's part.
std::int64_t append_rows(Intervals& set, std::int64_t first, const Operator& op, std::int64_t rows, const EngineModel& engine,
                         const GroupPlace& p) {
  const std::int64_t multiple = std::int64_t{std::max(1, engine.memory.vocabulary_multiple)} * p.tp;
  const std::int64_t width = op.parameters / rows, own = ceil_div(rows, multiple) * multiple / p.tp;
  const std::int64_t from = std::min(rows, p.t * own), to = std::min(rows, (p.t + 1) * own);
  append(set, {first + from * width, first + to * width});
  return (own - (to - from)) * width;
}

/// Appends queries, then keys and values; with fewer key/value heads than ranks these are whole heads.
void append_projection(Intervals& set, std::int64_t first, const Operator& op, const ReplicatedKeys& keys, const GroupPlace& p) {
  const std::int64_t unit = op.parameters / op.out, query = (op.out - keys.outputs) * unit, pairs = keys.outputs * unit;
  append_part(set, first, query, p.t, p.tp);
  if (p.tp <= keys.kv_heads)
    append_part(set, first + query, pairs, p.t, p.tp);
  else
    append_part(set, first + query, pairs, p.t * keys.kv_heads / p.tp, keys.kv_heads);
}

std::int64_t append_dense(Intervals& set, std::int64_t first, const Model& model, const LayerKind& kind, const Operator& op,
                          const EngineModel& engine, const GroupPlace& p) {
  if (op.split == TpSplit::vocab && model.vocabulary > 0 && op.parameters % model.vocabulary == 0)
    return append_rows(set, first, op, model.vocabulary, engine, p);
  if (op.split == TpSplit::none) {
    append(set, {first, first + op.parameters});
    return 0;
  }
  const ReplicatedKeys keys = replicated_keys(kind, op, std::numeric_limits<std::int64_t>::max());
  if (keys.any() && op.parameters_unsplit == 0 && op.parameters % op.out == 0) {
    append_projection(set, first, op, keys, p);
    return 0;
  }
  append(set, {first, first + op.parameters_unsplit});
  append_part(set, first + op.parameters_unsplit, op.parameters - op.parameters_unsplit, p.t, p.tp);
  return 0;
}

void append_experts(Intervals& set, std::int64_t first, const Operator& op, const GroupPlace& p) {
  const std::int64_t experts = std::max(1, op.experts), each = op.parameters / experts, own = ceil_div(experts, p.ep);
  for (std::int64_t k = std::min(experts, p.e * own); k < std::min(experts, (p.e + 1) * own); ++k)
    append_part(set, first + k * each, each, p.x, p.etp);
}

/// Returns the elements from … to − 1 of the list, counted along it.
Intervals part_of(const Intervals& list, std::int64_t from, std::int64_t to) {
  Intervals out;
  std::int64_t at = 0;
  for (const Interval& piece : list) {
    const std::int64_t first = std::max(from - at, std::int64_t{0}), last = std::min(to - at, piece.size());
    if (first < last) append(out, {piece.first + first, piece.first + last});
    at += piece.size();
  }
  return out;
}

/// Returns the i-th of `shards` parts, equal or by weights.
Intervals shard_of(const Intervals& list, std::int64_t i, std::int64_t shards, const std::vector<std::int64_t>& weights) {
  if (shards == 1) return list;
  const std::int64_t n = elements_of(list);
  if (static_cast<std::int64_t>(weights.size()) != shards) {
    const std::int64_t size = ceil_div(n, shards);
    return part_of(list, std::min(n, i * size), std::min(n, (i + 1) * size));
  }
  const auto upto = [&](std::int64_t k) {
    const std::int64_t all = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
    const std::int64_t before = std::accumulate(weights.begin(), weights.begin() + k, std::int64_t{0});
    return static_cast<std::int64_t>(static_cast<__int128>(n) * before / all);
  };
  return part_of(list, upto(i), upto(i + 1));
}

void sort_in(Intervals& set, Intervals more) {
  set.insert(set.end(), more.begin(), more.end());
  std::sort(set.begin(), set.end());
  Intervals out;
  for (const Interval& piece : set) append(out, piece);
  set = std::move(out);
}

std::int64_t table_elements_of(const LayerKind& kind) {
  for (const Operator& op : kind.operators)
    if (is_table(op)) return op.parameters;
  return 0;
}

/// Returns the number of layers of every pipeline chunk, in the form of table_chunks.
std::vector<std::int32_t> layers_by_chunk(const Pipeline& pipeline) {
  std::vector<std::int32_t> layers(static_cast<std::size_t>(pipeline.schedule.chunks()));
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (std::size_t k = 0; k < pipeline.stages[i].chunks.size(); ++k) {
      const Chunk& chunk = pipeline.stages[i].chunks[k];
      const std::int32_t at = pipeline_chunk(pipeline.schedule, static_cast<std::int32_t>(i), static_cast<std::int32_t>(k));
      layers[static_cast<std::size_t>(at)] = chunk.last() - chunk.first() + 1;
    }
  return layers;
}

/// Adds the copies of the token table other than the embedding's own.
void add_copies(const Pipeline& pipeline, const Model& model, Holding holding, std::vector<Holding>& out) {
  std::vector<ChunkId> copies;
  table_chunks(model, pipeline.schedule, layers_by_chunk(pipeline), copies);
  for (std::size_t k = 1; k < copies.size(); ++k) {
    const std::int32_t stage = place_of_chunk(pipeline.schedule, copies[k].value).stage;
    const Stage& on = pipeline.stages[static_cast<std::size_t>(stage)];
    holding.stage = stage;
    holding.devices = devices_of(on.devices);
    holding.state_shares = on.state_shares;
    holding.first_layer = holding.last_layer = 0;
    holding.table_copy = true;
    for (const Chunk& chunk : on.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (table_layer(model, range.first, range.last) >= 0) holding.strategy = range.strategy;
    out.push_back(holding);
  }
}

/// Returns the block of a strategy whose partition fits the model. The weights that a rank holds do not depend on
/// samples or tokens.
SpreadBlock block_of(const LayerKind& kind, const Strategy& s, const EngineModel& engine) {
  Sequence any;
  any.main = std::int64_t{1} << partition::kMaxBits;
  auto block = spread_block(any, engine, kind, any.main, s);
  ESPALIER_CHECK(block.ok());
  return std::move(*block);
}

/// Returns why the blocks of a range cannot be partitioned as its strategy requires, if so.
Status partition_fault(const LayerRange& range, const Plan& plan, const Model& model) {
  const EngineModel* engine = find_engine(plan.engine);
  if (range.strategy.partition.empty() || engine == nullptr) return {};
  Sequence any;
  any.main = std::int64_t{1} << partition::kMaxBits;
  for (std::int32_t l = range.first; l <= range.last; ++l) {
    const LayerKind& kind = model.layer(static_cast<std::size_t>(l));
    if (kind.role != LayerRole::block) continue;
    const auto block = spread_block(any, *engine, kind, any.main, range.strategy);
    if (!block) return block.error();
  }
  return {};
}

}  // namespace

std::int64_t elements_of(const Intervals& set) {
  std::int64_t n = 0;
  for (const Interval& piece : set) n += piece.size();
  return n;
}

Intervals intersection(const Intervals& a, const Intervals& b) {
  Intervals out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    append(out, {std::max(a[i].first, b[j].first), std::min(a[i].last, b[j].last)});
    if (a[i].last < b[j].last)
      ++i;
    else
      ++j;
  }
  return out;
}

Intervals difference(const Intervals& a, const Intervals& b) {
  Intervals out;
  std::size_t j = 0;
  for (Interval rest : a) {
    while (j < b.size() && b[j].last <= rest.first) ++j;
    for (std::size_t k = j; k < b.size() && b[k].first < rest.last; ++k) {
      append(out, {rest.first, std::min(rest.last, b[k].first)});
      rest.first = std::max(rest.first, b[k].last);
    }
    append(out, rest);
  }
  return out;
}

const Intervals& held_of(const RankShare& share, StateKind kind, ZeroStage zero) {
  const bool sharded = kind == StateKind::parameters  ? shards_parameters(zero)
                       : kind == StateKind::gradients ? shards_gradients(zero)
                                                      : shards_optimizer(zero);
  return sharded ? share.shard : share.held;
}

std::int64_t bytes_of(StateKind kind, const StatePolicy& states) {
  switch (kind) {
    case StateKind::parameters: return states.parameter;
    case StateKind::gradients: return states.gradient;
    case StateKind::optimizer: return std::int64_t{states.master} + states.optimizer;
  }
  ESPALIER_CHECK(false);
  return 0;
}

std::int64_t numbered_elements(const LayerKind& kind, bool table_only) {
  return table_only ? table_elements_of(kind) : parameter_count(kind);
}

Result<std::vector<Holding>> holdings_of(const Plan& plan, const Model& model) {
  std::vector<Holding> out;
  std::int32_t p = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    Holding holding;
    holding.pipeline = p++;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
      const Stage& stage = pipeline.stages[i];
      holding.stage = static_cast<std::int32_t>(i);
      holding.devices = devices_of(stage.devices);
      holding.state_shares = stage.state_shares;
      for (const Chunk& chunk : stage.chunks)
        for (const LayerRange& range : chunk.ranges) {
          if (Status status = partition_fault(range, plan, model); !status.ok()) {
            Error error = status.error();
            error.where = cat("$.pipelines[", holding.pipeline, "].stages[", i, "]: ", error.where);
            return error;
          }
          holding.first_layer = range.first;
          holding.last_layer = range.last;
          holding.strategy = range.strategy;
          out.push_back(holding);
        }
    }
    add_copies(pipeline, model, holding, out);
  }
  return out;
}

RankShare share_of(const Holding& holding, const Model& model, const LayerKind& kind, const EngineModel& engine,
                   std::int64_t position) {
  const GroupPlace p = place_of(holding.strategy, static_cast<std::int64_t>(holding.devices.size()), position);
  if (!holding.strategy.partition.empty() && kind.role == LayerRole::block) {
    RankShare share;
    share.held = held_elements(block_of(kind, holding.strategy, engine), kind, static_cast<int>(p.t));
    share.shard = shard_of(share.held, p.i, p.shard, holding.state_shares);
    return share;
  }
  Intervals dense, experts;
  RankShare share;
  std::int64_t first = 0;
  for (const Operator& op : kind.operators) {
    if (holding.table_copy && !is_table(op)) {
      first += op.parameters;
      continue;
    }
    if (op.kind == OperatorKind::expert_linear)
      append_experts(experts, first, op, p);
    else
      share.padding += append_dense(dense, first, model, kind, op, engine, p);
    first += op.parameters;
  }
  share.shard = shard_of(dense, p.i, p.shard, holding.state_shares);
  sort_in(share.shard, shard_of(experts, p.xi, p.expert_shard, {}));
  share.held = std::move(dense);
  sort_in(share.held, experts);
  return share;
}

}  // namespace espalier
