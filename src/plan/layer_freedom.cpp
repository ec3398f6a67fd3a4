// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_freedom.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/schedule.h"
#include "plan/shared_table.h"
#include "plan/structure.h"

namespace espalier {
namespace {

using D = Dimension;
using Sets = std::vector<std::vector<std::int64_t>>;

constexpr std::array kLayerDimensions = {D::tp,  D::sp,   D::cp,    D::cp_kind, D::ep,
                                         D::etp, D::zero, D::shard, D::order,   D::recompute};

/// Returns whether the dimension applies to a layer with this strategy.
bool matters(D d, const Strategy& s, bool block) {
  switch (d) {
    case D::sp: return s.tp > 1;
    case D::cp_kind: return s.cp > 1;
    case D::zero: return s.data_ranks() > 1;
    case D::shard: return s.shards_optimizer();
    case D::recompute: return block;
    default: return true;
  }
}

std::int64_t value_of(D d, const Strategy& s) {
  if (d == D::shard) return s.shards_optimizer() ? s.data_ranks() / std::max<std::int64_t>(1, s.shard) : 1;
  return get(d, s, {});
}

/// Returns the name of the value in a sentence.
std::string name_of(D d, std::int64_t value) { return d == D::shard ? cat("held ", value, " times") : value_text(d, value); }

const Sets& sets_of(const LayerFreedom& freedom, D d) {
  static const Sets none;
  if (d == D::zero) return freedom.zero_together;
  if (d == D::sp) return freedom.sp_together;
  return none;
}

bool holds(const std::vector<std::int64_t>& set, std::int64_t value) {
  return std::find(set.begin(), set.end(), value) != set.end();
}

/// Returns the values that a class may have in a dimension, for a layer of this strategy.
std::vector<std::int64_t> entries(const LayerFreedom& freedom, D d, const Strategy& s) {
  if ((freedom.differ_in & bit(d)) == 0) return {value_of(d, s)};
  const Sets& sets = sets_of(freedom, d);
  if (sets.empty()) return {0};
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (!matters(d, s, true) || holds(sets[i], value_of(d, s))) out.push_back(static_cast<std::int64_t>(i));
  return out;
}

std::int32_t blocks_of(const Model& model, const LayerRange& r) {
  std::int32_t blocks = 0;
  for (std::int32_t l = r.first; l <= r.last; ++l) blocks += model.layer(static_cast<std::size_t>(l)).role == LayerRole::block;
  return blocks;
}

/// Adds the values that layers of a range have in a dimension; none if it does not apply to them.
void add_values(D d, const LayerRange& r, std::int32_t blocks, std::set<std::int64_t>& out) {
  const Strategy& s = r.strategy;
  if (!matters(d, s, blocks > 0)) return;
  out.insert(value_of(d, s));
  const bool some = d == D::recompute && s.recompute.kind == RecomputeKind::full && s.recompute.layers < blocks;
  if (some) out.insert(static_cast<std::int64_t>(RecomputeKind::none));  // the other blocks of the range
}

std::string joined(D d, const std::set<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t v : values) out += (out.empty() ? "" : " and ") + name_of(d, v);
  return out;
}

bool fits_a_set(const Sets& sets, const std::set<std::int64_t>& values) {
  if (sets.empty()) return true;
  return std::any_of(sets.begin(), sets.end(), [&](const std::vector<std::int64_t>& set) {
    return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return holds(set, v); });
  });
}

bool share_modules(const LayerFreedom& freedom) { return (freedom.differ_in & bit(D::recompute)) == 0; }

/// Adds a sentence if blocks under selective recomputation name different modules and may not.
void add_module_fault(const LayerFreedom& freedom, const Model& model, const std::vector<std::vector<LayerRange>>& chunks,
                      std::vector<std::string>& out) {
  std::set<RecomputeModules> sets;
  for (const auto& ranges : chunks)
    for (const LayerRange& r : ranges)
      if (blocks_of(model, r) > 0 && r.strategy.recompute.kind == RecomputeKind::selective)
        sets.insert(r.strategy.recompute.modules);
  if (!share_modules(freedom) || sets.size() < 2) return;
  std::string names;
  for (const RecomputeModules set : sets) names += (names.empty() ? "" : " and ") + to_string(set);
  out.push_back(cat("layers differ in recomputed modules (", names, "); ", to_string(freedom)));
}

void add_dimension_faults(const LayerFreedom& freedom, const Model& model, const std::vector<std::vector<LayerRange>>& chunks,
                          std::vector<std::string>& out) {
  for (const D d : kLayerDimensions) {
    const bool free = (freedom.differ_in & bit(d)) != 0;
    if (free && sets_of(freedom, d).empty()) continue;
    std::set<std::int64_t> values;
    for (const auto& ranges : chunks)
      for (const LayerRange& r : ranges) add_values(d, r, blocks_of(model, r), values);
    if (!free && values.size() > 1)
      out.push_back(cat("layers differ in ", espalier::to_string(d), " (", joined(d, values), "); ", to_string(freedom)));
    if (free && !fits_a_set(sets_of(freedom, d), values))
      out.push_back(cat(espalier::to_string(d), " ", joined(d, values), " cannot be combined in one plan"));
  }
  add_module_fault(freedom, model, chunks, out);
  if (freedom.partition) return;
  std::set<BlockPartition> partitions;
  for (const auto& ranges : chunks)
    for (const LayerRange& r : ranges)
      if (blocks_of(model, r) > 0) partitions.insert(r.strategy.partition);
  if (partitions.size() > 1) out.push_back(cat("layers differ in operator partitions; ", to_string(freedom)));
}

void add_stage_faults(const Model& model, const Schedule& schedule, const std::vector<std::vector<LayerRange>>& chunks,
                      std::vector<std::string>& out) {
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(schedule.stages), 0);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const ChunkPlace place = place_of_chunk(schedule, static_cast<std::int32_t>(c));
    for (const LayerRange& r : chunks[c]) blocks[static_cast<std::size_t>(place.stage)] += blocks_of(model, r);
  }
  const auto empty = std::find(blocks.begin(), blocks.end(), 0);
  if (empty != blocks.end()) out.push_back(cat("stage ", empty - blocks.begin(), " has no block"));
}

}  // namespace

std::vector<Dimension> layer_dimensions() { return {kLayerDimensions.begin(), kLayerDimensions.end()}; }

bool has_freedom(const LayerFreedom& freedom) { return freedom.differ_in != 0 || freedom.any_stage; }

bool is_unrestricted(const LayerFreedom& f) {
  DimensionSet all = 0;
  for (const D d : kLayerDimensions) all |= bit(d);
  const bool limited = !f.zero_together.empty() || !f.sp_together.empty() || f.embedding_as_head || f.blocks_everywhere;
  return (f.differ_in & all) == all && f.partition && f.any_stage && !limited;
}

std::string to_string(const LayerFreedom& freedom) {
  std::string names;
  const auto add = [&](std::string_view name) { names.append(names.empty() ? "" : ", ").append(name); };
  for (const D d : kLayerDimensions)
    if ((freedom.differ_in & bit(d)) != 0) add(to_string(d));
  if (freedom.partition) add("partition");
  return cat("layers may differ in: ", names.empty() ? "nothing" : names,
             "; stages in: ", freedom.any_stage ? "layers" : "nothing");
}

std::vector<LayerClass> classes_of(const LayerFreedom& freedom, const Strategy& strategy) {
  std::vector<LayerClass> out(1);
  if (!freedom.partition) out.front().partition = strategy.partition;
  if (share_modules(freedom)) out.front().modules = strategy.recompute.modules;
  for (const D d : kLayerDimensions) {
    std::vector<LayerClass> longer;
    for (const std::int64_t entry : entries(freedom, d, strategy)) {
      for (const LayerClass& c : out) {
        longer.push_back(c);
        longer.back().values.push_back(entry);
      }
    }
    out = std::move(longer);
  }
  return out;
}

bool admits(const LayerFreedom& freedom, const LayerClass& all, const Strategy& strategy, bool block) {
  ESPALIER_CHECK(all.values.size() == kLayerDimensions.size());
  if (!freedom.partition && block && strategy.partition != all.partition) return false;
  if (share_modules(freedom) && block && strategy.recompute.modules != all.modules) return false;
  for (std::size_t i = 0; i < kLayerDimensions.size(); ++i) {
    const D d = kLayerDimensions[i];
    if (!matters(d, strategy, block)) continue;
    const std::int64_t value = value_of(d, strategy), entry = all.values[i];
    if ((freedom.differ_in & bit(d)) == 0) {
      if (value != entry) return false;
      continue;
    }
    const Sets& sets = sets_of(freedom, d);
    if (!sets.empty() && !holds(sets[static_cast<std::size_t>(entry)], value)) return false;
  }
  return true;
}

std::vector<std::string> layer_faults(const LayerFreedom& freedom, const Model& model, const Schedule& schedule,
                                      const std::vector<std::vector<LayerRange>>& chunks) {
  std::vector<std::string> out;
  if (is_unrestricted(freedom)) return out;
  add_dimension_faults(freedom, model, chunks, out);
  if (freedom.blocks_everywhere) add_stage_faults(model, schedule, chunks, out);
  if (!freedom.embedding_as_head) return out;
  const TableLayout embedding = table_layout(chunks.front().front().strategy), head = table_layout(chunks.back().back().strategy);
  if (embedding != head)
    out.push_back(cat("the embedding is distributed as ", text_of(embedding), ", the head as ", text_of(head)));
  return out;
}

std::vector<std::string> layer_faults(const LayerFreedom& freedom, const Model& model, const Plan& plan) {
  if (plan.uniform() || is_unrestricted(freedom)) return {};
  if (const std::size_t pipelines = plan.pipelines.size(); pipelines > 1) return {cat(pipelines, " concurrent pipelines")};
  const Pipeline& pipeline = plan.only_pipeline();
  return layer_faults(freedom, model, pipeline.schedule, chunk_ranges(pipeline));
}

}  // namespace espalier
