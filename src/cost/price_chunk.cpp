// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "cost/price_parts.h"
#include "cost/redistribution.h"
#include "cost/rounding.h"
#include "plan/shared_table.h"

namespace espalier::cost {
namespace {

/// Returns whether two strategies share states and step-end communication: equal but for recomputation. All layers of
/// a stage lie on its devices. The copy of a table has the strategy of the embedding, whose stage may lie on others.
bool reduce_together(const StrategyCost& of, const StrategyCost& with) {
  const Strategy &a = of.s, &b = with.s;
  if (&a == &b) return true;
  Strategy x = a;
  x.recompute = b.recompute;
  return x == b;
}

}  // namespace

Share& share_of(Shares& shares, const StrategyCost& x) {
  for (Share& s : shares)
    if (reduce_together(*s.under, x)) return s;
  shares.push_back({&x, {}, {}, 0});
  return shares.back();
}

const StrategyCost& Pricing::under(const RangeCost& range) {
  if (only != nullptr) return *only;
  for (const StrategyCost& x : strategy_costs)
    if (&x.s == range.strategy && &x.c == &on(range)) return x;
  strategy_costs.push_back(strategy_cost_of(on(range), *range.strategy, structure.schedule.stages, *range.layers, edges));
  return strategy_costs.back();
}

std::int32_t Pricing::strategy_index(const Strategy& s) const {
  const auto at = std::find(program->strategies.begin(), program->strategies.end(), s);
  ESPALIER_CHECK(at != program->strategies.end());
  return static_cast<std::int32_t>(at - program->strategies.begin());
}

namespace {

void add_share(const LayerCost& layer, std::int32_t layers, Share& share) {
  share.elements += layer.elements().times(layers);
  share.sync += layer.tensor_sync.times(layers);
  share.layers += layers;
}

/// Adds the layers of a range, as runs of one kind.
void add_range(Pricing& p, const RangeCost& range, const StrategyCost& x, const std::vector<SplitTable::Run>& runs, ChunkSum& sum,
               Share& share) {
  for (const SplitTable::Run& run : runs) add_share((*range.layers)[static_cast<std::size_t>(run.kind)], run.layers, share);
  each_run(*p.c.workload.model, runs, range.strategy->recompute,
           [&](std::int32_t kind, std::int64_t n, RecomputeKind how) { sum.add(x, kind, n, how); });
}

void redistribute(Pricing& p, const RangeCost& before, const RangeCost& range, ChunkSum& sum) {
  const auto kind = static_cast<std::size_t>(p.kind_of(before.last));
  const std::int64_t samples = std::int64_t{p.structure.schedule.micro_batch} * p.chunks.front().front().strategy->dp;
  const RangeMove move =
      range_move(p.c.workload, p.on(range).fabric, *before.strategy, *range.strategy, p.c.workload.model->kinds[kind],
                 (*before.layers)[kind], (*range.layers)[static_cast<std::size_t>(p.kind_of(range.first))], samples);
  sum.redistribute(move.forward.total_ns(), move.backward.total_ns());
}

/// Adds the copy of the token table that chunk i holds in addition to its layers, laid out as the embedding's
/// strategy says.
void add_copy(Pricing& p, std::int32_t i, ChunkSum& sum, Shares& shares) {
  const std::int32_t user = table_layer(*p.c.workload.model, p.ranges(i).front().first, p.ranges(i).back().last);
  const auto range = std::find_if(p.ranges(i).begin(), p.ranges(i).end(), [&](const RangeCost& r) { return user <= r.last; });
  const LayerCost& cost = (*range->layers)[static_cast<std::size_t>(p.kind_of(user))];
  const StrategyCost& embedding = p.under_embedding();
  const ParameterElements elements = table_elements(*p.c.workload.model, *p.c.engine, p.c.workload.training, embedding.s);
  sum.add_table(elements, table_time(embedding, p.under(*range), cost, elements, p.edges), user == p.ranges(i).front().first);
  share_of(shares, embedding).elements += elements;
}

/// Returns whether two ranges are spread over equally many devices. Between unequal stages the message redistributes
/// (cluster_costs.h).
bool same_devices(const RangeCost& a, const RangeCost& b) {
  const auto devices = [](const Strategy& s) { return s.devices(); };
  return a.on == b.on && devices(*a.strategy) == devices(*b.strategy);
}

void sum_layers(Pricing& p, std::int32_t i, bool copy, PricedChunk& chunk) {
  ChunkSum sum(chunk.total);
  const RangeCost* before = i > 0 ? &p.ranges(i - 1).back() : nullptr;
  for (const RangeCost& range : p.ranges(i)) {
    const StrategyCost& x = p.under(range);
    if (before != nullptr && before->strategy != range.strategy && same_devices(*before, range))
      redistribute(p, *before, range, sum);
    if (p.split == nullptr) runs_of(*p.c.workload.model, range.first, range.last, p.scratch.runs);
    add_range(p, range, x, p.split != nullptr ? p.split->runs(i) : p.scratch.runs, sum, share_of(chunk.shares, x));
    before = &range;
  }
  sum.finish(p.under(p.ranges(i).front()), p.kind_of(p.ranges(i).front().first), p.structure.schedule.virtual_stages);
  if (copy) add_copy(p, i, sum, chunk.shares);
  for (const Share& s : chunk.shares) chunk.total.gradient_sync_ns += round_ns(tensor_sync_s(*s.under, s.sync));
}

void record(Pricing& p, const StrategyCost& x, const StepMessage& m, double weight, bool reduction) {
  if (m.placed.size <= 1) return;
  CollectivePart part;
  part.kind = m.kind;
  part.group = m.group;
  part.strategy = p.strategy_index(x.s);
  part.bytes = m.bytes;
  part.message_bytes = m.message_bytes;
  part.share = weight;
  part.element_bytes = reduction ? x.states.reduce : x.states.gather;
  p.program->parts.push_back(part);
}

/// Holds one bucket of a chunk's reduction or gather.
struct StepEnd {
  std::int64_t ns = 0;
  MutualSlowdown slowdown;
};

/// Returns the mean over the ranges' own buckets.
StepEnd step_end(Pricing& p, const Shares& shares, double buckets, CollectiveId id, bool reduction) {
  std::int32_t layers = 0;
  for (const Share& s : shares) layers += s.layers;
  double seconds = 0, moved = 0;
  const auto begin = p.program != nullptr ? p.program->parts.size() : 0;
  for (const Share& s : shares) {
    if (!(reduction ? reduces_gradients(p.c.workload.experts, s.under->s) : gathers_parameters(s.under->s))) continue;
    const double own = std::max(1.0, std::floor(buckets * s.layers / layers));
    const double weight = shares.size() == 1 ? 1.0 : own / buckets;
    double t = 0;
    const auto emit = [&](const StepMessage& m) {
      t += message_s(s.under->c.fabric, m);
      moved += weight * passing(s.under->c.fabric, m);
      if (p.program != nullptr) record(p, *s.under, m, weight, reduction);
    };
    const auto dense = static_cast<double>(s.elements.dense), expert = static_cast<double>(s.elements.expert);
    if (reduction)
      each_reduction(*s.under, dense, expert, own, emit);
    else
      each_gather(*s.under, dense, expert, own, emit);
    seconds += weight * t;
  }
  if (p.program != nullptr) {
    p.program->collectives[id].parts_begin = static_cast<std::int32_t>(begin);
    p.program->collectives[id].parts_end = static_cast<std::int32_t>(p.program->parts.size());
  }
  // A mean of several is rounded up, so that all buckets together are never shorter than their parts.
  const std::int64_t ns = shares.size() == 1 ? round_ns(seconds) : static_cast<std::int64_t>(std::ceil(seconds * 1e9 - 1e-6));
  if (shares.empty()) return {ns, {}};
  return {ns, shares.front().under->c.device.interference().of(moved, seconds)};
}

/// Returns an earlier chunk of the same layers. It is cut into as many buckets, because these follow from the number
/// of layers.
std::int32_t twin_of(const Pricing& p, std::int32_t i) { return p.split != nullptr ? p.split->twin(i) : i; }

void hold(Pricing& p, std::int32_t stage, const Shares& shares) {
  for (const Share& s : shares) {
    Share& all = share_of(p.held(stage), *s.under);
    all.elements += s.elements;
    all.layers += s.layers;
  }
}

}  // namespace

void price_chunk(Pricing& p, std::int32_t i) {
  PricedChunk& chunk = p.priced(i);
  const bool copy = holds_copy(p.scratch.copies, ChunkId(i));
  chunk.shares.clear();
  chunk.like = i;
  if (const std::int32_t twin = twin_of(p, i); twin != i && !copy) {
    const PricedChunk& same = p.priced(twin);
    chunk.total = same.total;
    chunk.reduce_ns = same.reduce_ns;
    chunk.gather_ns = same.gather_ns;
    chunk.reduce_slowdown = same.reduce_slowdown;
    chunk.gather_slowdown = same.gather_slowdown;
    chunk.like = twin;
  } else {
    sum_layers(p, i, copy, chunk);
    const double buckets = p.structure.buckets[ChunkId(i)];
    StepEnd reduction, gather;
    if (p.structure.reduce_gradients) reduction = step_end(p, chunk.shares, buckets, p.structure.grad_reduce(ChunkId(i)), true);
    if (p.structure.gather_parameters) gather = step_end(p, chunk.shares, buckets, p.structure.param_gather(ChunkId(i)), false);
    chunk.reduce_ns = reduction.ns;
    chunk.gather_ns = gather.ns;
    chunk.reduce_slowdown = reduction.slowdown;
    chunk.gather_slowdown = gather.slowdown;
  }
  hold(p, p.stage_of(i), p.priced(chunk.like).shares);
}

}  // namespace espalier::cost
