// SPDX-License-Identifier: Apache-2.0
#include "cost/layered_timing.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "base/check.h"
#include "cost/chunk_sum.h"
#include "cost/collective.h"
#include "cost/placement.h"
#include "cost/plan_timing.h"
#include "cost/redistribution.h"
#include "plan/lowering_facts.h"
#include "plan/shared_table.h"

namespace espalier::cost {
namespace {

/// Strategies that share states and step-end communication: equal but for recomputation.
Strategy without_recompute(Strategy s) {
  s.recompute = Recompute{};
  return s;
}

/// Layers of one such group in a chunk or stage.
struct Share {
  const Assembly* under = nullptr;
  ParameterElements elements;
  TensorSync sync;
  std::int32_t layers = 0;
};
using Shares = std::vector<Share>;

class LayeredTiming {
 public:
  LayeredTiming(const CostContext& c, const Schedule& schedule, const ChunkRanges& chunks, const Lowering& lowering,
                PlanTiming& out)
      : c_(c), schedule_(schedule), chunks_(chunks), lowering_(lowering), out_(out) {}

  void run() {
    const auto p = static_cast<std::size_t>(schedule_.stages);
    out_.chunks.resize(chunks_.size());
    out_.stages.assign(p, StageTiming{});
    held_.assign(p, Shares{});
    const Assembly& embedding = under(chunks_.front().front());
    exchange_ns_ = ns(table_exchange_s(embedding, lowering_));
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(chunks_.size()); ++i) fill_chunk(i);
    for (std::int32_t i = 0; i < schedule_.stages; ++i) fill_stage(i);
    add_gradient_sync(lowering_, out_);
    expose_reduction(c_, table_elements(*c_.model, *c_.engine, embedding.s), lowering_, out_);
    out_.compute_slowdown = out_.communication_slowdown = 1.0;
    for (const Assembly& x : assemblies_) {
      out_.compute_slowdown = std::max(out_.compute_slowdown, x.groups.slowdown.compute);
      out_.communication_slowdown = std::max(out_.communication_slowdown, x.groups.slowdown.communication);
    }
    out_.allocator_reserve = c_.engine->allocator_reserve;
  }

 private:
  const Assembly& under(const RangeCost& range) {
    const auto [at, fresh] = known_.try_emplace(range.strategy, nullptr);
    if (fresh) {
      assemblies_.push_back(assembly_of(c_, *range.strategy, schedule_.stages, *range.layers, ChunkEdges::exposed));
      at->second = &assemblies_.back();
    }
    return *at->second;
  }

  static Share& share_of(Shares& shares, const Assembly& x) {
    const Strategy key = without_recompute(x.s);
    for (Share& s : shares)
      if (without_recompute(s.under->s) == key) return s;
    shares.push_back({&x, {}, {}, 0});
    return shares.back();
  }

  [[nodiscard]] std::int32_t kind_of(std::int32_t layer) const { return c_.model->layers[static_cast<std::size_t>(layer)]; }

  /// Layers of a range, run by run; full recomputation for its first blocks.
  void add_range(const RangeCost& range, const Assembly& x, ChunkSum& sum, Share& share) const {
    std::int32_t again = x.s.recompute.layers;
    for (std::int32_t i = range.first; i <= range.last; ++i) {
      const std::int32_t kind = kind_of(i);
      const bool block = c_.model->kinds[static_cast<std::size_t>(kind)].role == LayerRole::block;
      RecomputeKind how = block ? x.s.recompute.kind : RecomputeKind::none;
      if (how == RecomputeKind::full && again-- <= 0) how = RecomputeKind::none;
      sum.add(x, kind, 1, how);
      share.elements.dense += x.layers[static_cast<std::size_t>(kind)].dense_parameters;
      share.elements.expert += x.layers[static_cast<std::size_t>(kind)].expert_parameters;
      share.sync += x.layers[static_cast<std::size_t>(kind)].tensor_sync;
      ++share.layers;
    }
  }

  void redistribute(const RangeCost& before, const RangeCost& range, ChunkSum& sum) {
    const auto kind = static_cast<std::size_t>(kind_of(before.last));
    const std::int64_t samples = std::int64_t{schedule_.micro_batch} * chunks_.front().front().strategy->dp;
    const RangeMove move = range_move(c_, *before.strategy, *range.strategy, c_.model->kinds[kind], (*before.layers)[kind],
                                      (*range.layers)[static_cast<std::size_t>(kind_of(range.first))], samples);
    sum.redistribute(move.forward.total_ns(), move.backward.total_ns());
  }

  /// The copy of the token table that chunk i holds beside its layers, laid out as the embedding's strategy says.
  void add_copy(std::int32_t i, ChunkSum& sum, Shares& shares) {
    if (!holds_copy(lowering_.table_chunks, i)) return;
    const auto& ranges = chunks_[static_cast<std::size_t>(i)];
    const std::int32_t user = table_layer(*c_.model, ranges.front().first, ranges.back().last);
    const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const RangeCost& r) { return user <= r.last; });
    const LayerCost& cost = (*range->layers)[static_cast<std::size_t>(kind_of(user))];
    const Assembly& embedding = under(chunks_.front().front());
    const std::int64_t elements = table_elements(*c_.model, *c_.engine, embedding.s);
    sum.add_table(elements, table_zero_time(embedding, cost, elements, ChunkEdges::exposed), user == ranges.front().first);
    share_of(shares, embedding).elements.dense += elements;
  }

  void fill_chunk(std::int32_t i) {
    const auto& ranges = chunks_[static_cast<std::size_t>(i)];
    ChunkTiming& t = out_.chunks[static_cast<std::size_t>(i)];
    Shares shares;
    ChunkSum sum(t);
    const RangeCost* before = i > 0 ? &chunks_[static_cast<std::size_t>(i - 1)].back() : nullptr;
    for (const RangeCost& range : ranges) {
      const Assembly& x = under(range);
      if (before != nullptr) redistribute(*before, range, sum);
      add_range(range, x, sum, share_of(shares, x));
      before = &range;
    }
    sum.finish(under(ranges.front()), kind_of(ranges.front().first));
    add_copy(i, sum, shares);
    for (const Share& s : shares) t.gradient_sync_ns += ns(tensor_sync_s(*s.under, s.sync));
    fill_data_communication(shares, lowering_.pieces[static_cast<std::size_t>(i)], t);
    t.boundary_bytes = t.send_forward_ns = t.send_backward_ns = 0;
    if (i > 0) {
      const RangeCost& sender = chunks_[static_cast<std::size_t>(i - 1)].back();
      fill_message(under(sender), kind_of(sender.last), schedule_, i, out_);
    }
    hold(place_of_chunk(schedule_, i).stage, shares);
  }

  void fill_data_communication(const Shares& shares, double pieces, ChunkTiming& t) const {
    double reduce = 0, gather = 0;
    std::int32_t layers = 0;
    for (const Share& s : shares) layers += s.layers;
    for (const Share& s : shares) {
      const double own = std::max(1.0, std::floor(pieces * s.layers / layers));
      Lowering facts;
      lowering_facts(*c_.model, s.under->s, {}, {}, facts);
      const auto dense = static_cast<double>(s.elements.dense), expert = static_cast<double>(s.elements.expert);
      const double weight = shares.size() == 1 ? 1.0 : own / pieces;
      if (facts.reduce_gradients) reduce += weight * reduce_piece_s(*s.under, dense, expert, own);
      if (facts.gather_parameters) gather += weight * gather_piece_s(*s.under, dense, expert, own);
    }
    // A mean of several is rounded up, so that all pieces together are never shorter than what they are made of.
    const auto whole = [&](double seconds) {
      return shares.size() == 1 ? ns(seconds) : static_cast<std::int64_t>(std::ceil(seconds * 1e9 - 1e-6));
    };
    t.grad_reduce_ns = lowering_.reduce_gradients ? whole(reduce) : 0;
    t.param_gather_ns = lowering_.gather_parameters ? whole(gather) : 0;
  }

  void hold(std::int32_t stage, const Shares& shares) {
    for (const Share& s : shares) {
      Share& all = share_of(held_[static_cast<std::size_t>(stage)], *s.under);
      all.elements.dense += s.elements.dense, all.elements.expert += s.elements.expert, all.layers += s.layers;
    }
  }

  /// Elements of the largest layer whose states are sharded from `zero` on, anywhere in the plan.
  [[nodiscard]] std::int64_t largest(std::int32_t zero) const {
    std::int64_t most = 0;
    for (const auto& chunk : chunks_)
      for (const RangeCost& range : chunk)
        for (std::int32_t i = range.first; range.strategy->zero >= zero && i <= range.last; ++i) {
          const LayerCost& l = (*range.layers)[static_cast<std::size_t>(kind_of(i))];
          most = std::max(most, l.dense_parameters + l.expert_parameters);
        }
    return most;
  }

  void fill_stage(std::int32_t i) {
    StageTiming& stage = out_.stages[static_cast<std::size_t>(i)];
    const StatePolicy states = states_of(*c_.engine, c_.training);
    double bytes = 0;
    bool gathers = false, scatters = false;
    for (const Share& s : held_[static_cast<std::size_t>(i)]) {
      stage.dense_parameters += s.elements.dense, stage.expert_parameters += s.elements.expert;
      const StaticMemory memory = state_memory(s.elements, states, s.under->s);
      stage.memory.parameters += memory.parameters, stage.memory.gradients += memory.gradients;
      stage.memory.optimizer += memory.optimizer;
      stage.reduced_elements += reduced_elements(s.elements, s.under->s);
      bytes += update_bytes(c_, states, s.elements, s.under->s);
      gathers |= s.under->s.zero >= 3, scatters |= s.under->s.zero >= 2;
    }
    stage.memory.framework = c_.workspace_bytes;
    stage.memory.communication_buffers = 2 * message_bytes(out_);
    if (gathers) stage.memory.communication_buffers += 2 * largest(3) * states.gather;
    if (scatters) stage.memory.communication_buffers += largest(2) * states.reduce;
    const RangeCost& head = chunks_.back().back();
    if (i == schedule_.stages - 1) stage.memory.framework += deferred_bytes(c_, schedule_, *head.layers);
    fill_optimizer(c_, bytes, stage);
    stage.tied_reduce_ns = exchange_ns_;
  }

  const CostContext& c_;
  const Schedule& schedule_;
  const ChunkRanges& chunks_;
  const Lowering& lowering_;
  PlanTiming& out_;
  std::deque<Assembly> assemblies_;  // a deque: their addresses stay
  std::map<const Strategy*, const Assembly*> known_;
  std::vector<Shares> held_;
  std::int64_t exchange_ns_ = 0;
};

}  // namespace

void layered_timing(const CostContext& c, const Schedule& schedule, const ChunkRanges& chunks, const Lowering& lowering,
                    PlanTiming& out) {
  LayeredTiming(c, schedule, chunks, lowering, out).run();
}

void layered_timing(const CostContext& c, const Schedule& schedule, const std::vector<std::vector<LayerRange>>& chunks,
                    std::int64_t samples, const Lowering& lowering, PlanTiming& out) {
  std::deque<std::pair<const Strategy*, std::vector<LayerCost>>> priced;  // a deque: their addresses stay
  const auto price = [&](const Strategy& s) -> const std::pair<const Strategy*, std::vector<LayerCost>>& {
    for (const auto& known : priced)
      if (*known.first == s) return known;
    priced.emplace_back(&s, std::vector<LayerCost>{});
    layer_costs(c, s, schedule.stages, static_cast<std::int32_t>(samples / s.dp), priced.back().second);
    return priced.back();
  };
  ChunkRanges ranges;
  for (const auto& chunk : chunks) {
    ranges.emplace_back();
    for (const LayerRange& r : chunk) {
      const auto& known = price(r.strategy);
      ranges.back().push_back({r.first, r.last, known.first, &known.second});
    }
  }
  layered_timing(c, schedule, ranges, lowering, out);
}

namespace {

/// Without what a stage may share with other layers of the same shard: a sum of layers never exceeds their stage.
ParameterElements whole_shards(const ParameterElements& e, const Strategy& s) {
  if (s.zero == 0) return e;
  const std::int64_t expert_shard = std::gcd(std::int64_t{s.shard}, s.expert_data_ranks());
  return {e.dense - e.dense % s.shard, e.expert - e.expert % expert_shard};
}

}  // namespace

void layer_shares(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                  std::vector<LayerShare>& out) {
  const Assembly x = assembly_of(c, s, stages, layers, ChunkEdges::free);
  Lowering facts;
  lowering_facts(*c.model, s, {}, {}, facts);
  out.resize(layers.size());
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const LayerCost& l = layers[k];
    const bool block = c.model->kinds[k].role == LayerRole::block;
    ChunkTiming t;
    ChunkSum sum(t);
    sum.add(x, static_cast<std::int32_t>(k), 1, block ? s.recompute.kind : RecomputeKind::none);
    const ParameterElements e{l.dense_parameters, l.expert_parameters};
    LayerShare& share = out[k];
    share = LayerShare{};
    share.forward_ns = t.forward.duration_ns(), share.backward_ns = t.backward.duration_ns();
    share.split_backward_ns = t.backward_input.duration_ns() + t.backward_weight.duration_ns();
    // Of a thousand such layers at once: without latency, which pieces share.
    constexpr double kMany = 1024;
    const double dense = kMany * static_cast<double>(e.dense), expert = kMany * static_cast<double>(e.expert);
    const double reduce = facts.reduce_gradients ? reduce_piece_s(x, dense, expert, 1) / kMany : 0.0;
    const double gather = facts.gather_parameters ? gather_piece_s(x, dense, expert, 1) / kMany : 0.0;
    const Slowdown& slow = x.groups.slowdown;
    const double lost =
        1 / slow.compute + 1 / slow.communication < 1 ? 1.0 : std::min(1.0, slow.communication * (1 - 1 / slow.compute));
    // Less what rounding takes from a piece, of which there are no more than layers.
    const auto less = [](double seconds, double rounding) {
      return static_cast<std::int64_t>(std::max(0.0, seconds * 1e9 - rounding));
    };
    // Of the sums inside tensor groups, one message a chunk, the bytes alone count.
    constexpr std::int64_t kEndless = std::int64_t{1} << 20;
    const double summed = tensor_sync_s(x, l.tensor_sync.times(kEndless)) / static_cast<double>(kEndless);
    const std::int64_t sync = l.gradient_sync_ns + less(summed, 0.5);
    share.reduce_ns = less(reduce, 0.5) + sync;
    const double late = c.engine->coefficients.exposed_share;  // of an overlapped reduction, waited for
    share.hidden_ns = less(lost * (1 - late) * reduce + late * reduce, 1.0) + sync;
    share.gather_ns = less(lost * gather, 1.0);
    share.update_bytes = update_bytes(c, x.states, e, s);
    share.state_bytes = state_memory(whole_shards(e, s), x.states, s).total();
    share.saved_bytes = t.saved_bytes;
    share.transient_bytes = sum.peak_bytes() - t.saved_bytes;
    share.boundary_bytes = l.boundary_bytes;
  }
}

double update_s(const CostContext& c, double bytes) { return bytes / c.rates.memory; }

double update_constant_s(const CostContext& c) { return optimizer_s(c, 0.0); }

double pass_constant_s(const CostContext& c) { return 2 * static_cast<double>(pass_ns(c)) * 1e-9; }

void timing_of_plan(const CostContext& c, const Plan& plan, const Lowering& lowering, PlanTiming& out) {
  const Schedule& schedule = plan.schedule;
  std::vector<LayerCost> layers;
  if (plan.uniform()) {
    layer_costs(c, plan.strategy(), schedule.stages, schedule.micro_batch, layers);
    plan_timing(c, plan.strategy(), schedule, split_of(*c.model, plan), layers, lowering, out);
    return;
  }
  std::vector<std::vector<LayerRange>> chunks(static_cast<std::size_t>(schedule.stages) *
                                              static_cast<std::size_t>(schedule.virtual_stages));
  for (std::int32_t i = 0; i < schedule.stages; ++i)
    for (std::int32_t k = 0; k < schedule.virtual_stages; ++k)
      chunks[static_cast<std::size_t>(pipeline_chunk(schedule, i, k))] =
          plan.stages[static_cast<std::size_t>(i)].chunks[static_cast<std::size_t>(k)].ranges;
  layered_timing(c, schedule, chunks, plan.samples_per_microbatch(), lowering, out);
}

}  // namespace espalier::cost
