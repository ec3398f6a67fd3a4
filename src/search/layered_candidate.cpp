// SPDX-License-Identifier: Apache-2.0
#include "search/layered_candidate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/invariant.h"
#include "plan/rules.h"
#include "plan/structure.h"

namespace espalier::search {
namespace {

/// Returns whether strategies can share one range: they are equal except for the number of recomputed layers.
bool joins(const Strategy& a, const Strategy& b) {
  Strategy x = a, y = b;
  x.recompute.layers = y.recompute.layers = 0;
  return x == y;
}

/// Returns whether a layer can join a range. Recomputation has no effect on layers other than blocks, so they adopt
/// that of their neighbours.
bool joins_as(const LayerKind& kind, const Strategy& range, const Strategy& s) {
  Strategy own = s;
  if (kind.role != LayerRole::block) own.recompute = range.recompute;
  return joins(range, own);
}

bool same_but_recompute(const Strategy& a, const Strategy& b) {
  Strategy x = a, y = b;
  x.recompute = y.recompute = Recompute{};
  return x == y;
}

std::vector<LayerRange> ranges_of(const Model& model, std::int32_t begin, std::int32_t end,
                                  const std::vector<Strategy>& strategies) {
  std::vector<LayerRange> ranges;
  std::int32_t blocks = 0;  // blocks in the open range
  for (std::int32_t l = begin; l < end; ++l) {
    const LayerKind& kind = model.layer(static_cast<std::size_t>(l));
    const Strategy& s = strategies[static_cast<std::size_t>(l)];
    const bool block = kind.role == LayerRole::block;
    if (!ranges.empty() && block && blocks == 0 && same_but_recompute(ranges.back().strategy, s)) {
      ranges.back().strategy = s;  // so far the range has only the embedding
    } else if (ranges.empty() || !joins_as(kind, ranges.back().strategy, s)) {
      ranges.push_back({l, l, s});
      blocks = 0;
    }
    ranges.back().last = l;
    blocks += block ? 1 : 0;
    Recompute& r = ranges.back().strategy.recompute;
    r.layers = r.kind == RecomputeKind::full ? blocks : 0;
    if (blocks == 0) r = Recompute{};
  }
  return ranges;
}

}  // namespace

Strategy with_overlap(Strategy s, const Overlap& on, bool experts) {
  s.overlap.grad_reduce = on.grad_reduce && replicates_weights(experts, s);
  s.overlap.param_gather = on.param_gather && s.shards_optimizer();
  s.overlap.p2p = on.p2p;
  s.overlap.tp = on.tp && s.sp == SequenceParallel::megatron;
  return s;
}

Overlap overlap_of(const LayeredConfiguration& c) {
  Overlap on;
  for (const auto& ranges : c.chunks) {
    for (const LayerRange& r : ranges) {
      const Overlap& o = r.strategy.overlap;
      on.grad_reduce |= o.grad_reduce;
      on.param_gather |= o.param_gather;
      on.p2p |= o.p2p;
      on.tp |= o.tp;
    }
  }
  return on;
}

LayeredConfiguration layered_configuration(const Model& model, const OptionTable& table, Schedule schedule, std::int64_t samples,
                                           const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& options,
                                           const Overlap& overlap) {
  std::vector<Strategy> strategies;
  for (const std::int32_t o : options) strategies.push_back(table.strategy(o));
  return layered_configuration(model, schedule, samples, first, std::move(strategies), overlap);
}

LayeredConfiguration layered_configuration(const Model& model, Schedule schedule, std::int64_t samples,
                                           const std::vector<std::int32_t>& first, std::vector<Strategy> strategies,
                                           const Overlap& overlap) {
  ESPALIER_CHECK(strategies.size() == model.layers.size() && !first.empty() && first.front() == 0);
  ESPALIER_CHECK(samples % strategies.front().dp == 0);
  const bool experts = has_experts(model);
  for (Strategy& s : strategies) s = with_overlap(s, overlap, experts);
  LayeredConfiguration c;
  schedule.micro_batch = static_cast<std::int32_t>(samples / strategies.front().dp);
  c.schedule = schedule;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int32_t end = i + 1 < first.size() ? first[i + 1] : static_cast<std::int32_t>(model.layers.size());
    c.chunks.push_back(ranges_of(model, first[i], end, strategies));
  }
  return c;
}

std::optional<LayeredCandidate> as_layered(const Model& model, const OptionTable& table, const Configuration& c,
                                           const cost::SplitTable& split) {
  std::vector<std::int32_t> first;
  LayeredCandidate out;
  for (std::int32_t chunk = 0; chunk < split.chunks(); ++chunk) {
    first.push_back(split.first(chunk));
    std::int32_t again = c.strategy.recompute.layers;
    for (std::int32_t l = split.first(chunk); l <= split.last(chunk); ++l) {
      const bool block = model.layer(static_cast<std::size_t>(l)).role == LayerRole::block;
      Recompute how = block ? c.strategy.recompute : Recompute{};
      if (how.kind == RecomputeKind::full && again-- <= 0) how = {};
      std::optional<std::int32_t> option = table.find(c.strategy, how);
      // Recomputation has no effect on other layers; they use whatever name the job allows.
      if (!option && !block) option = table.find(c.strategy, c.strategy.recompute);
      if (!option) return std::nullopt;
      out.options.push_back(*option);
    }
  }
  const std::int64_t samples = std::int64_t{c.schedule.micro_batch} * c.strategy.dp;
  out.configuration = layered_configuration(model, table, c.schedule, samples, first, out.options, c.strategy.overlap);
  return out;
}

void assemble(const cost::CostContext& context, const LayeredConfiguration& c, std::int64_t samples, ProgramStructure& structure,
              cost::Costs& costs) {
  std::vector<const Strategy*> strategies;
  std::vector<std::int32_t> layers;
  for (const auto& ranges : c.chunks) {
    layers.push_back(ranges.back().last - ranges.front().first + 1);
    for (const LayerRange& r : ranges) strategies.push_back(&r.strategy);
  }
  ESPALIER_CHECK(std::accumulate(layers.begin(), layers.end(), 0) ==
                 static_cast<std::int32_t>(context.workload.model->layers.size()));
  structure_of(*context.workload.model, strategies, c.schedule, layers, structure);
  cost::price(context, structure, cost::ranges_of(context, c.schedule.stages, c.chunks, samples).chunks, costs);
}

bool canonical_less(const LayeredConfiguration& a, const LayeredConfiguration& b) {
  const auto less = [](const LayerRange& x, const LayerRange& y) {
    return x.first != y.first ? x.first < y.first : x.last != y.last ? x.last < y.last : x.strategy < y.strategy;
  };
  if (a.schedule != b.schedule) return a.schedule < b.schedule;
  return std::lexicographical_compare(a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end(),
                                      [&](const std::vector<LayerRange>& x, const std::vector<LayerRange>& y) {
                                        return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(), less);
                                      });
}

}  // namespace espalier::search
