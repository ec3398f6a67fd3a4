// SPDX-License-Identifier: Apache-2.0
#include "check/engine_layers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "check/verdict.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Describes one layer of the plan by its strategy.
struct PlannedLayer {
  std::int32_t index = 0;
  std::int32_t stage = 0;
  bool block = false;
  bool recomputed = false;  ///< for a block under full recomputation: it is one of those recomputed
  Strategy strategy;
};

std::vector<PlannedLayer> layers_of(const View& view) {
  std::vector<PlannedLayer> out;
  for (std::size_t c = 0; c < view.chunks.size(); ++c) {
    for (const LayerRange& range : view.chunks[c].ranges) {
      std::int32_t again = range.strategy.recompute.kind == RecomputeKind::full ? range.strategy.recompute.layers : 0;
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        PlannedLayer layer{i, view.stage_of[c], view.model->layer(static_cast<std::size_t>(i)).role == LayerRole::block, false,
                           range.strategy};
        if (layer.block) layer.recomputed = again-- > 0;
        out.push_back(layer);
      }
    }
  }
  return out;
}

/// Returns a layer's value of a dimension as a number; nothing where the dimension does not apply.
using Says = std::optional<std::int64_t> (*)(const PlannedLayer&);

struct Spoken {
  const char* name;
  Dimension dimension;
  Says says;
};

std::int64_t ranks(const Strategy& s) { return std::int64_t{s.cp} * s.dp * (s.sp == SequenceParallel::ulysses ? s.tp : 1); }

std::optional<std::int64_t> recomputation(const PlannedLayer& l) {
  if (!l.block) return std::nullopt;
  const bool kept = l.strategy.recompute.kind == RecomputeKind::full && !l.recomputed;
  return kept ? 0 : static_cast<std::int64_t>(l.strategy.recompute.kind);
}
std::optional<std::int64_t> sequence(const PlannedLayer& l) {
  if (l.strategy.tp == 1) return std::nullopt;
  return static_cast<std::int64_t>(l.strategy.sp);
}
std::optional<std::int64_t> context(const PlannedLayer& l) {
  if (l.strategy.cp == 1) return std::nullopt;
  return static_cast<std::int64_t>(l.strategy.cp_kind);
}
std::optional<std::int64_t> sharding(const PlannedLayer& l) {
  if (ranks(l.strategy) == 1) return std::nullopt;
  return number_of(l.strategy.zero);
}
std::optional<std::int64_t> copies(const PlannedLayer& l) {
  if (!l.strategy.shards_optimizer()) return std::nullopt;
  return ranks(l.strategy) / l.strategy.shard;
}

const Spoken kSpoken[] = {
    {"tp", Dimension::tp, [](const PlannedLayer& l) { return std::optional<std::int64_t>(l.strategy.tp); }},
    {"cp", Dimension::cp, [](const PlannedLayer& l) { return std::optional<std::int64_t>(l.strategy.cp); }},
    {"ep", Dimension::ep, [](const PlannedLayer& l) { return std::optional<std::int64_t>(l.strategy.ep); }},
    {"etp", Dimension::etp, [](const PlannedLayer& l) { return std::optional<std::int64_t>(l.strategy.etp); }},
    {"order", Dimension::order,
     [](const PlannedLayer& l) { return std::optional<std::int64_t>(static_cast<int>(l.strategy.order)); }},
    {"sp", Dimension::sp, sequence},
    {"cp_kind", Dimension::cp_kind, context},
    {"zero", Dimension::zero, sharding},
    {"shard", Dimension::shard, copies},
    {"recompute", Dimension::recompute, recomputation},
};

bool member(const std::vector<std::int64_t>& set, std::int64_t v) { return std::count(set.begin(), set.end(), v) > 0; }

/// Returns whether some set contains the values of all layers.
bool stand_together(const std::vector<std::vector<std::int64_t>>& sets, const std::vector<PlannedLayer>& layers, Says says) {
  for (const std::vector<std::int64_t>& set : sets) {
    bool all = true;
    for (const PlannedLayer& l : layers) {
      const auto v = says(l);
      all = all && (!v || member(set, *v));
    }
    if (all) return true;
  }
  return sets.empty();
}

void require_equal(const Spoken& d, const std::vector<PlannedLayer>& layers, const std::string& engine, Verdict& verdict) {
  const PlannedLayer* first = nullptr;
  for (const PlannedLayer& l : layers) {
    const auto v = d.says(l);
    if (!v) continue;
    if (first == nullptr) first = &l;
    verdict.require(*v == *d.says(*first), [&] {
      return say("layers ", first->index, " and ", l.index, " differ in ", d.name, ", which engine ", engine,
                 " fixes for the whole plan");
    });
  }
}

void require_ends(const std::vector<PlannedLayer>& layers, const std::string& engine, Verdict& verdict) {
  const Strategy &a = layers.front().strategy, &b = layers.back().strategy;
  const bool alike = a.tp == b.tp && a.cp == b.cp && a.dp == b.dp && a.zero == b.zero && a.shard == b.shard && a.sp == b.sp;
  verdict.require(alike, [&] { return say("embedding and head are spread differently, which engine ", engine, " cannot say"); });
}

void require_blocks(const View& view, const std::vector<PlannedLayer>& layers, Verdict& verdict) {
  for (std::int32_t stage = 0; stage < view.stages; ++stage) {
    const bool any =
        std::any_of(layers.begin(), layers.end(), [&](const PlannedLayer& l) { return l.stage == stage && l.block; });
    verdict.require(any, [&] { return say("stage ", stage, " has no block"); });
  }
}

}  // namespace

Finding check_engine_layers(const View& view) {
  Verdict verdict("engine-layers");
  const LayerFreedom& may = view.engine.layers;
  const std::vector<PlannedLayer> layers = layers_of(view);
  for (const Spoken& d : kSpoken) {
    if ((may.differ_in & bit(d.dimension)) == 0) require_equal(d, layers, view.engine.name, verdict);
    const auto* sets = d.dimension == Dimension::zero ? &may.zero_together
                       : d.dimension == Dimension::sp ? &may.sp_together
                                                      : nullptr;
    if (sets == nullptr) continue;
    verdict.require(stand_together(*sets, layers, d.says), [&] {
      return say("layers have values of ", d.name, " that cannot appear together in a plan of engine ", view.engine.name);
    });
  }
  if (!may.partition)
    for (const PlannedLayer& l : layers)
      verdict.require(!l.block || l.strategy.partition == view.plan->strategy().partition,
                      [&] { return say("layer ", l.index, " has another operator partition than the first"); });
  if (may.embedding_as_head) require_ends(layers, view.engine.name, verdict);
  if (may.blocks_everywhere) require_blocks(view, layers, verdict);
  return verdict.finding("layers differ only in what the engine can vary");
}

}  // namespace espalier::check
