// SPDX-License-Identifier: Apache-2.0
#include "cost/plan_timing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "cost/collective.h"
#include "cost/state_memory.h"
#include "plan/lowering_facts.h"
#include "plan/split.h"

namespace espalier::cost {
namespace {

constexpr std::size_t kMaxKinds = 64;

std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }

PhaseTime times(const PhaseTime& t, std::int64_t n) {
  return {t.compute_ns * n, t.exposed_ns * n, t.other_ns * n, t.hidden_ns * n};
}

/// ZeRO communication of one layer kind within a chunk, per micro-batch.
struct ZeroTime {
  PhaseTime forward, backward;
  PhaseTime backward_again;  ///< where the block is recomputed: more compute to hide behind
  std::int64_t gather_ns = 0, reduce_ns = 0;
};

/// The data-parallel groups of a configuration.
struct DataGroups {
  Group shard, replica, expert_shard, expert_replica;
  bool sharded;
  Slowdown slowdown;  ///< of compute beside their collectives: of the shard or the replica group, whichever moves more
};

DataGroups data_groups(const CostContext& c, const Strategy& s, std::int32_t stages) {
  const std::int64_t shard = s.zero > 0 ? s.shard : s.data_ranks();
  DataGroups g;
  g.sharded = s.zero > 0;
  g.shard = data_group(c.levels, s, stages, shard);
  g.replica = replica_group(c.levels, s, stages);
  if (s.zero == 0) g.replica = Group{};
  const std::int64_t expert_ranks = s.expert_data_ranks();
  g.expert_shard = expert_data_group(c.levels, s, stages);
  g.expert_replica = Group{};
  if (s.zero > 0) {
    // Experts shard over the part of their replicas that the dense shard group covers; placed like the whole replica group.
    const std::int64_t expert_shard = std::gcd(shard, expert_ranks);
    g.expert_replica = g.expert_shard;
    g.expert_shard.size = expert_shard;
    g.expert_replica.size = expert_ranks / expert_shard;
    for (int k = 0; k < g.expert_shard.levels; ++k) {
      auto& inside = g.expert_shard.members[static_cast<std::size_t>(k)];
      auto& outside = g.expert_replica.members[static_cast<std::size_t>(k)];
      outside = std::max<std::int64_t>(1, inside / expert_shard);
      inside = std::min(inside, expert_shard);
    }
  }
  const Slowdown shard_slowdown = c.slowdown(c.data_levels, g.shard), replica_slowdown = c.slowdown(c.data_levels, g.replica);
  g.slowdown = g.shard.size > 1 && shard_slowdown.compute >= replica_slowdown.compute ? shard_slowdown : replica_slowdown;
  return g;
}

double gather_s(const CostContext& c, const DataGroups& g, double dense_bytes, double expert_bytes) {
  double t = 0;
  if (dense_bytes > 0) t += all_gather_s(c.data_levels, g.shard, dense_bytes);
  if (expert_bytes > 0) t += all_gather_s(c.data_levels, g.expert_shard, expert_bytes);
  return t;
}

/// Reduction at the end of the step: all-reduce without ZeRO; reduce-scatter in the shard group and all-reduce of the shard over
/// the replicas with ZeRO 1; the replicas' part alone when the shard group reduces per micro-batch (ZeRO ≥ 2).
double reduce_s(const CostContext& c, const DataGroups& g, const Strategy& s, double dense_bytes, double expert_bytes) {
  double t = 0;
  const auto one = [&](const Group& shard, const Group& replica, double bytes) {
    if (bytes <= 0) return;
    if (!g.sharded) {
      const double bucket = s.overlap.grad_reduce ? c.engine->reduce_bucket_bytes : 0.0;
      t += bucket > 0 && bytes > bucket ? bytes / bucket * all_reduce_s(c.data_levels, shard, bucket)
                                        : all_reduce_s(c.data_levels, shard, bytes);
      return;
    }
    if (s.zero == 1)
      t +=
          c.engine->zero1_all_reduces ? all_reduce_s(c.data_levels, shard, bytes) : reduce_scatter_s(c.data_levels, shard, bytes);
    t += all_reduce_s(c.data_levels, replica, bytes / static_cast<double>(shard.size));
  };
  one(g.shard, g.replica, dense_bytes);
  one(g.expert_shard, g.expert_replica, expert_bytes);
  return t;
}

/// `exposed_share` of what could be hidden is not.
void hide_into(PhaseTime& phase, double communication, double compute, Slowdown k, double exposed_share) {
  const double least = pair_time(communication, compute, k) - compute;
  const double extra = least + exposed_share * std::max(0.0, communication - least);
  phase.exposed_ns += ns(extra);
  phase.hidden_ns += ns(std::max(0.0, communication - extra));
}

ZeroTime zero_time(const CostContext& c, const DataGroups& g, const Strategy& s, const StatePolicy& states, const LayerCost& l,
                   ChunkEdges edges) {
  ZeroTime z;
  if (s.zero < 2) return z;
  const double dense = static_cast<double>(l.dense_parameters), expert = static_cast<double>(l.expert_parameters);
  const double gather = s.zero >= 3 ? gather_s(c, g, dense * states.gather, expert * states.gather) : 0.0;
  double reduce = 0;
  if (dense > 0) reduce += reduce_scatter_s(c.data_levels, g.shard, dense * states.reduce);
  if (expert > 0) reduce += reduce_scatter_s(c.data_levels, g.expert_shard, expert * states.reduce);
  // Experts may have more replicas than the shard group covers; with hybrid sharding they are reduced at the end of the step.
  if (expert > 0 && s.shard == s.data_ranks())
    reduce += all_reduce_s(c.data_levels, g.expert_replica, expert * states.reduce / static_cast<double>(g.expert_shard.size));
  const double forward = static_cast<double>(l.forward.duration_ns()) * 1e-9,
               backward = static_cast<double>(l.backward.duration_ns()) * 1e-9;
  const double share = c.engine->coefficients.exposed_share;
  if (s.overlap.param_gather) {
    hide_into(z.forward, gather, forward, g.slowdown, share);
  } else {
    z.forward.exposed_ns += ns(gather), z.backward.exposed_ns += ns(gather);
  }
  double beside = s.overlap.param_gather ? gather : 0.0;
  if (s.overlap.grad_reduce)
    beside += reduce;
  else
    z.backward.exposed_ns += ns(reduce);
  z.backward_again = z.backward;
  hide_into(z.backward, beside, backward, g.slowdown, share);
  if (s.recompute.kind == RecomputeKind::full) hide_into(z.backward_again, beside, forward + backward, g.slowdown, share);
  // Recomputation never makes a step shorter, not even by what rounds away.
  z.backward_again.exposed_ns = std::max(z.backward_again.exposed_ns, z.backward.exposed_ns - l.forward.duration_ns());
  const double elements = dense + expert;
  const std::int64_t gather_copy = s.zero >= 3 ? ns(elements * c.engine->gather_copy_bytes / c.rates.memory) : 0;
  const std::int64_t reduce_copy =
      s.zero >= 2 ? ns(elements * c.engine->reduce_copy_bytes * (states.reduce > 0) / c.rates.memory) : 0;
  z.forward.compute_ns += gather_copy;
  z.backward.compute_ns += gather_copy + reduce_copy, z.backward_again.compute_ns += gather_copy + reduce_copy;
  if (edges == ChunkEdges::free) {
    // A bound: what is rounded in one piece here may be rounded down in two pieces there.
    z.forward.exposed_ns = std::max<std::int64_t>(0, z.forward.exposed_ns - 2);
    z.backward.exposed_ns = std::max<std::int64_t>(0, z.backward.exposed_ns - 2);
    z.backward_again.exposed_ns = std::max<std::int64_t>(0, z.backward_again.exposed_ns - 2);
    return z;
  }
  z.gather_ns = s.overlap.param_gather ? ns(gather) : 0;
  z.reduce_ns = s.overlap.grad_reduce ? ns(reduce) : 0;
  return z;
}

struct Assembly {
  const CostContext& c;
  const Strategy& s;
  const SplitTable& split;
  const std::vector<LayerCost>& layers;
  StatePolicy states;
  DataGroups groups;
  std::array<ZeroTime, kMaxKinds> zero;
  std::int32_t kinds;
};

/// Working memory of a chunk beside what it keeps. The loss is the last layer forward and the first backward: what the head keeps is not
/// there yet, or no longer, while blocks run.
struct WorkingMemory {
  TransientBytes head, blocks;
  std::int64_t recomputed = 0, head_saved = 0;
  void add(const LayerKind& kind, const LayerCost& l, std::int64_t layers) {
    TransientBytes& most = kind.role == LayerRole::head ? head : blocks;
    most.forward = std::max(most.forward, l.transient.forward), most.backward = std::max(most.backward, l.transient.backward);
    if (kind.role == LayerRole::head) head_saved += l.saved.none * layers;
  }
  [[nodiscard]] std::int64_t forward() const { return std::max(head.forward, blocks.forward - head_saved); }
  [[nodiscard]] std::int64_t backward() const { return std::max(head.backward, blocks.backward + recomputed - head_saved); }
};

/// Sums layers of one chunk: time, memory, and its parameter elements.
void fill_chunk(const Assembly& x, std::int32_t chunk, ChunkTiming& t) {
  t = ChunkTiming{};
  WorkingMemory working;
  const Recompute& r = x.s.recompute;
  for (std::int32_t k = 0; k < x.kinds; ++k) {
    const std::int64_t n = x.split.count(chunk, k);
    if (n == 0) continue;
    const LayerCost& l = x.layers[static_cast<std::size_t>(k)];
    const ZeroTime& z = x.zero[static_cast<std::size_t>(k)];
    const LayerKind& kind = x.c.model->kinds[static_cast<std::size_t>(k)];
    const bool block = kind.role == LayerRole::block;
    const std::int64_t again = block && r.kind == RecomputeKind::full ? x.split.leading(chunk, k, r.layers) : 0;
    t.forward += times(l.forward, n), t.forward += times(z.forward, n);
    t.backward += times(l.backward, n), t.backward += times(z.backward, n - again), t.backward += times(z.backward_again, again);
    t.backward_input += times(l.backward_input, n);
    t.backward_weight += times(l.backward_weight, n);
    std::int64_t saved = l.saved.none * n;
    if (block && r.kind == RecomputeKind::selective) {
      saved = l.saved.selective * n;
      t.backward += times(l.recompute_selective, n), t.backward_input += times(l.recompute_selective, n);
      working.recomputed = std::max(working.recomputed, l.saved.none - l.saved.selective);
    } else if (block && r.kind == RecomputeKind::full) {
      saved += again * (l.saved.full - l.saved.none);
      t.backward += times(l.forward, again), t.backward_input += times(l.forward, again);
      if (again > 0) working.recomputed = std::max(working.recomputed, l.saved.none - l.saved.full);
    }
    t.saved_bytes += saved;
    working.add(kind, l, n);
    t.dense_parameters += l.dense_parameters * n, t.expert_parameters += l.expert_parameters * n;
  }
  t.forward_transient_bytes = working.forward(), t.backward_transient_bytes = working.backward();
  t.saved_after_input_bytes = t.saved_bytes;  // weight gradients need inputs and output gradients: nothing is freed in between
  const ZeroTime& first = x.zero[static_cast<std::size_t>(x.c.model->layers[static_cast<std::size_t>(x.split.first(chunk))])];
  t.forward.exposed_ns += first.gather_ns;
  t.backward.exposed_ns += first.reduce_ns;
  const FrameworkCoefficients& f = x.c.engine->coefficients;
  const std::int64_t pass = ns(kPassLaunches * x.c.rates.launch + f.micro_batch_s / 2);
  t.forward.other_ns += pass, t.backward.other_ns += pass, t.backward_input.other_ns += pass;
}

void fill_data_communication(const Assembly& x, const Lowering& lowering, double pieces, ChunkTiming& t) {
  const double dense = static_cast<double>(t.dense_parameters), expert = static_cast<double>(t.expert_parameters);
  if (lowering.reduce_gradients)
    t.grad_reduce_ns = ns(reduce_s(x.c, x.groups, x.s, dense * x.states.reduce / pieces, expert * x.states.reduce / pieces));
  if (lowering.gather_parameters)
    t.param_gather_ns = ns(gather_s(x.c, x.groups, dense * x.states.gather / pieces, expert * x.states.gather / pieces));
}

/// The message that enters chunk i from another stage.
void fill_messages(const Assembly& x, const Schedule& schedule, std::int32_t i, PlanTiming& out) {
  ChunkTiming& t = out.chunks[static_cast<std::size_t>(i)];
  t.boundary_bytes = t.send_forward_ns = t.send_backward_ns = 0;
  if (i == 0) return;
  const std::int32_t here = place_of_chunk(schedule, i).stage, before = place_of_chunk(schedule, i - 1).stage;
  if (before == here) return;
  const std::int32_t kind = x.c.model->layers[static_cast<std::size_t>(x.split.first(i) - 1)];
  t.boundary_bytes = x.layers[static_cast<std::size_t>(kind)].boundary_bytes;
  if (schedule.kind == ScheduleKind::interleaved && i > schedule.stages) {  // the same two stages as one round earlier
    const ChunkTiming& earlier = out.chunks[static_cast<std::size_t>(i - schedule.stages)];
    if (earlier.boundary_bytes == t.boundary_bytes) {
      t.send_forward_ns = t.send_backward_ns = earlier.send_forward_ns;
      return;
    }
  }
  const int level = stage_link_level(x.c.levels, x.s, schedule.stages, before, here);
  const double host = x.c.engine->message_host_calls * x.c.rates.launch;
  const double bytes = static_cast<double>(t.boundary_bytes);
  // What every tensor-parallel rank holds can be sent in tp parts and gathered; sequence parallelism has split it already.
  const bool scattered = x.c.engine->scattered_messages && x.s.tp > 1 && x.s.sp == SequenceParallel::none;
  const double gather = scattered ? all_gather_s(x.c.tensor_levels, tp_group(x.c.levels, x.s), bytes) : 0.0;
  t.send_forward_ns = t.send_backward_ns =
      ns(point_to_point_s(x.c.levels, level, scattered ? bytes / x.s.tp : bytes) + gather + host);
}

double optimizer_s(const CostContext& c, const StatePolicy& p, const ParameterElements& e, const Strategy& s) {
  const double shard = s.zero > 0 ? static_cast<double>(s.shard) : 1.0;
  const double expert_shard = s.zero > 0 ? static_cast<double>(std::gcd(std::int64_t{s.shard}, s.expert_data_ranks())) : 1.0;
  const double elements = static_cast<double>(e.dense) / shard + static_cast<double>(e.expert) / expert_shard;
  const double whole = c.engine->whole_gradient_bytes * static_cast<double>(e.dense + e.expert);
  const double gradient =
      (whole > 0 ? 1.0 : 2.0) * p.gradient;  // the update reads it, and so does the norm unless that is in `whole`
  const double bytes = gradient + 2.0 * p.master + 2.0 * p.optimizer + (p.master > 0 ? 1.0 : 2.0) * p.parameter;
  // one pass for the gradient norm, then the fused update: a few launches
  return memory_bound_s(c.rates, elements * bytes + whole) + 8 * c.rates.launch + c.engine->coefficients.step_s;
}

/// Of a reduction beside the backward pass `exposed_share` is waited for at the end of the step, before the update; and where output and
/// embedding share a table, its part: that gradient is complete with the last operator of the backward pass only.
void expose_reduction(const CostContext& c, const Strategy& s, const Lowering& lowering, PlanTiming& out) {
  if (!lowering.reduce_gradients || !lowering.overlap_reduce) return;
  const double share = c.engine->coefficients.exposed_share;
  const bool shared_table = c.model->tied_embeddings && out.chunks.size() == 1;
  const double table = shared_table ? static_cast<double>(tied_table_elements(*c.model, *c.engine, s)) : 0.0;
  for (std::size_t i = 0; i < out.chunks.size(); ++i) {
    ChunkTiming& t = out.chunks[i];
    const double all = static_cast<double>(std::max<std::int64_t>(1, t.dense_parameters + t.expert_parameters));
    const double late = share + (1.0 - share) * std::min(1.0, table / all);
    const auto waited = static_cast<std::int64_t>(late * static_cast<double>(t.grad_reduce_ns));
    t.grad_reduce_ns -= waited;
    out.stages[static_cast<std::size_t>(place_of_chunk(lowering.schedule, static_cast<std::int32_t>(i)).stage)].optimizer_ns +=
        waited * lowering.pieces[i];
  }
}

/// Largest message that enters any chunk: one receive and one send of it are in flight.
std::int64_t message_bytes(const PlanTiming& timing) {
  std::int64_t most = 0;
  for (const ChunkTiming& t : timing.chunks) most = std::max(most, t.boundary_bytes);
  return most;
}

std::int64_t largest_layer(const std::vector<LayerCost>& layers) {
  std::int64_t largest = 0;
  for (const LayerCost& l : layers) largest = std::max(largest, l.dense_parameters + l.expert_parameters);
  return largest;
}

/// `message` and `largest`: message_bytes and largest_layer, the same for all stages.
/// Logit gradients that wait on the last stage for their weight gradient.
std::int64_t deferred_bytes(const CostContext& c, const Schedule& schedule, const std::vector<LayerCost>& layers) {
  const std::int64_t waiting = std::min<std::int64_t>(c.engine->loss.deferred, schedule.microbatches);
  if (waiting == 0 || schedule.stages == 1) return 0;
  std::int64_t logits = 0;
  for (std::size_t k = 0; k < layers.size(); ++k)
    if (c.model->kinds[k].role == LayerRole::head) logits = std::max(logits, layers[k].transient.backward);
  return waiting * logits;
}

StaticMemory stage_memory(const CostContext& c, const StatePolicy& states, const Strategy& s, const StageTiming& stage,
                          std::int64_t message, std::int64_t largest) {
  StaticMemory memory = state_memory({stage.dense_parameters, stage.expert_parameters}, states, s);
  memory.framework = c.workspace_bytes;
  memory.communication_buffers = 2 * message;
  if (s.zero >= 3) memory.communication_buffers += 2 * largest * states.gather;  // the layer in use and the one being gathered
  if (s.zero >= 2) memory.communication_buffers += largest * states.reduce;      // the full gradient before its reduce-scatter
  return memory;
}

}  // namespace

SplitTable::SplitTable(const Model& model, const std::vector<std::int32_t>& first)
    : first_(first), kinds_(model.kinds.size()), layers_(static_cast<std::int32_t>(model.layers.size())) {
  ESPALIER_CHECK(kinds_ <= kMaxKinds && !first.empty() && first.front() == 0);
  counts_.assign(first_.size() * kinds_, 0);
  blocks_.assign(first_.size(), 0);
  first_block_.assign(first_.size(), 0);
  bool seen = false;
  for (std::int32_t c = 0; c < chunks(); ++c) {
    first_block_[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(block_kinds_.size());
    for (std::int32_t i = this->first(c); i <= last(c); ++i) {
      const std::int32_t kind = model.layers[static_cast<std::size_t>(i)];
      ++counts_[static_cast<std::size_t>(c) * kinds_ + static_cast<std::size_t>(kind)];
      if (model.layer(static_cast<std::size_t>(i)).role != LayerRole::block) continue;
      if (seen && kind != block_kind_) uniform_blocks_ = false;
      if (!seen) block_kind_ = kind, seen = true;
      block_kinds_.push_back(kind);
      ++blocks_[static_cast<std::size_t>(c)];
    }
    most_blocks_ = std::max(most_blocks_, blocks_[static_cast<std::size_t>(c)]);
    layer_counts_.push_back(last(c) - this->first(c) + 1);
    std::int32_t twin = 0;
    const auto same = [&](std::int32_t other) {
      return layer_counts_[static_cast<std::size_t>(other)] == layer_counts_.back() &&
             std::equal(model.layers.begin() + this->first(c), model.layers.begin() + last(c) + 1,
                        model.layers.begin() + this->first(other));
    };
    while (twin < c && (twins_[static_cast<std::size_t>(twin)] != twin || !same(twin))) ++twin;
    twins_.push_back(twin);
  }
}

std::int32_t SplitTable::leading(std::int32_t chunk, std::int32_t kind, std::int32_t blocks) const {
  const std::int32_t n = std::min(blocks, this->blocks(chunk));
  if (uniform_blocks_) return kind == block_kind_ ? n : 0;
  const auto* begin = block_kinds_.data() + first_block_[static_cast<std::size_t>(chunk)];
  return static_cast<std::int32_t>(std::count(begin, begin + n, kind));
}

SplitTable split_of(const Model& model, const Plan& plan) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(plan.schedule.stages) * plan.schedule.virtual_stages);
  for (std::int32_t i = 0; i < plan.schedule.stages; ++i)
    for (std::int32_t k = 0; k < plan.schedule.virtual_stages; ++k)
      first[static_cast<std::size_t>(pipeline_chunk(plan.schedule, i, k))] =
          plan.stages[static_cast<std::size_t>(i)].chunks[static_cast<std::size_t>(k)].first;
  return {model, first};
}

SplitTable split_for(const Model& model, const Training& training, const EngineModel& engine, std::int32_t chunks) {
  return {model, split_layers(model, training.sequence, engine.split, chunks)};
}

void lowering_for(const Model& model, const Strategy& s, const Schedule& schedule, const SplitTable& split, Lowering& out) {
  lowering_facts(model, s, schedule, split.layer_counts(), out);
}

PhaseTime part_of(const PhaseTime& whole, int piece, int pieces) {
  const auto cut = [&](std::int64_t v) { return v * (piece + 1) / pieces - v * piece / pieces; };
  return {cut(whole.compute_ns), cut(whole.exposed_ns), cut(whole.other_ns), cut(whole.hidden_ns)};
}

void plan_timing(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                 const std::vector<LayerCost>& layers, const Lowering& lowering, PlanTiming& out, ChunkEdges edges) {
  Assembly x{c,
             s,
             split,
             layers,
             states_of(*c.engine, c.training),
             data_groups(c, s, schedule.stages),
             {},
             static_cast<std::int32_t>(layers.size())};
  for (std::size_t k = 0; k < layers.size(); ++k) x.zero[k] = zero_time(c, x.groups, s, x.states, layers[k], edges);
  const std::int32_t p = schedule.stages, chunks = split.chunks();
  out.chunks.resize(static_cast<std::size_t>(chunks));
  out.stages.assign(static_cast<std::size_t>(p), StageTiming{});
  for (std::int32_t i = 0; i < chunks; ++i) {
    ChunkTiming& t = out.chunks[static_cast<std::size_t>(i)];
    auto& held = out.stages[static_cast<std::size_t>(place_of_chunk(schedule, i).stage)];
    const bool tied_copy = i == chunks - 1 && lowering.tied_reduce;
    if (const std::int32_t twin = split.twin(i);
        twin != i && !tied_copy &&
        lowering.pieces[static_cast<std::size_t>(i)] == lowering.pieces[static_cast<std::size_t>(twin)]) {
      t = out.chunks[static_cast<std::size_t>(twin)];
    } else {
      fill_chunk(x, i, t);
      if (tied_copy) t.dense_parameters += tied_table_elements(*c.model, *c.engine, s);
      fill_data_communication(x, lowering, lowering.pieces[static_cast<std::size_t>(i)], t);
    }
    held.dense_parameters += t.dense_parameters, held.expert_parameters += t.expert_parameters;
    fill_messages(x, schedule, i, out);
  }
  const std::int64_t message = message_bytes(out), largest = largest_layer(layers);
  for (std::int32_t i = 0; i < p; ++i) {
    StageTiming& stage = out.stages[static_cast<std::size_t>(i)];
    const ParameterElements e{stage.dense_parameters, stage.expert_parameters};
    stage.memory = stage_memory(c, x.states, s, stage, message, largest);
    if (i == p - 1) stage.memory.framework += deferred_bytes(c, schedule, layers);
    stage.optimizer_ns = ns(optimizer_s(c, x.states, e, s));
    if (lowering.tied_reduce) {
      const double bytes = static_cast<double>(tied_table_elements(*c.model, *c.engine, s)) * x.states.reduce;
      stage.tied_reduce_ns = ns(point_to_point_s(c.levels, stage_link_level(c.levels, s, p, 0, p - 1), bytes));
    }
  }
  expose_reduction(c, s, lowering, out);
  out.compute_slowdown = x.groups.slowdown.compute;
  out.communication_slowdown = x.groups.slowdown.communication;
  out.allocator_reserve = c.engine->allocator_reserve;
}

void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const PlanTiming& timing,
                  std::vector<std::int64_t>& out) {
  const StatePolicy states = states_of(*c.engine, c.training);
  const std::int64_t message = message_bytes(timing), largest = largest_layer(layers);
  out.clear();
  for (const StageTiming& stage : timing.stages) {
    StaticMemory memory = stage_memory(c, states, s, stage, message, largest);
    memory.framework = stage.memory.framework;  // does not depend on how states are sharded
    out.push_back(memory.total());
  }
}

}  // namespace espalier::cost
