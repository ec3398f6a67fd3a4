// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_sum.h"

#include <numeric>

#include "base/check.h"
#include "cost/collective.h"

namespace espalier::cost {
namespace {

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

}  // namespace

Assembly assembly_of(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                     ChunkEdges edges) {
  Assembly x{
      c, s, layers, states_of(*c.engine, c.training), data_groups(c, s, stages), {}, static_cast<std::int32_t>(layers.size())};
  if (s.zero < 2) return x;  // nothing inside chunks
  for (std::size_t k = 0; k < layers.size(); ++k) x.zero[k] = zero_time(c, x.groups, s, x.states, layers[k], edges);
  return x;
}

ZeroTime table_zero_time(const Assembly& x, const LayerCost& user, std::int64_t elements, ChunkEdges edges) {
  LayerCost table;
  table.forward = user.forward, table.backward = user.backward;
  table.dense_parameters = elements;
  return zero_time(x.c, x.groups, x.s, x.states, table, edges);
}

double table_exchange_s(const Assembly& x, const Lowering& lowering) {
  const auto& levels = x.c.levels;
  const std::vector<std::int32_t>& copies = lowering.table_chunks;
  const double bytes = static_cast<double>(table_elements(*x.c.model, *x.c.engine, x.s)) * x.states.reduce;
  if (copies.size() < 2 || bytes <= 0) return 0.0;
  const auto stage = [&](std::size_t i) { return place_of_chunk(lowering.schedule, copies[i]).stage; };
  int slowest = 0;
  for (std::size_t a = 0; a < copies.size(); ++a)
    for (std::size_t b = a + 1; b < copies.size(); ++b)
      slowest = std::max(slowest, stage_link_level(levels, x.s, lowering.schedule.stages, stage(a), stage(b)));
  if (copies.size() == 2) return point_to_point_s(levels, slowest, bytes);
  Group ring;
  ring.size = static_cast<std::int64_t>(copies.size());
  ring.levels = static_cast<int>(levels.size());
  for (int k = 0; k < ring.levels; ++k) ring.members[static_cast<std::size_t>(k)] = k < slowest ? 1 : ring.size;
  return all_reduce_s(levels, ring, bytes);
}

double tensor_sync_s(const Assembly& x, const TensorSync& sync) {
  const auto& levels = x.c.data_levels;
  double t = 0;
  if (const double bytes = static_cast<double>(sync.whole) * x.states.reduce; bytes > 0)
    t += all_reduce_s(levels, tp_group(levels, x.s), bytes);
  if (const double bytes = static_cast<double>(sync.key_value) * x.states.reduce; bytes > 0)
    t += all_reduce_s(levels, place_group(levels, sync.holders, 1), bytes);
  return t;
}

double reduce_piece_s(const Assembly& x, double dense, double expert, double pieces) {
  return reduce_s(x.c, x.groups, x.s, dense * x.states.reduce / pieces, expert * x.states.reduce / pieces);
}

double gather_piece_s(const Assembly& x, double dense, double expert, double pieces) {
  return gather_s(x.c, x.groups, dense * x.states.gather / pieces, expert * x.states.gather / pieces);
}

void fill_message(const Assembly& sender, std::int32_t kind, const Schedule& schedule, std::int32_t i, PlanTiming& out) {
  ChunkTiming& t = out.chunks[static_cast<std::size_t>(i)];
  t.boundary_bytes = t.send_forward_ns = t.send_backward_ns = 0;
  const std::int32_t here = place_of_chunk(schedule, i).stage, before = place_of_chunk(schedule, i - 1).stage;
  if (before == here) return;
  const CostContext& c = sender.c;
  const Strategy& s = sender.s;
  t.boundary_bytes = sender.layers[static_cast<std::size_t>(kind)].boundary_bytes;
  const int level = stage_link_level(c.levels, s, schedule.stages, before, here);
  const double host = c.engine->message_host_calls * c.rates.launch;
  const double bytes = static_cast<double>(t.boundary_bytes);
  // What every tensor-parallel rank holds can be sent in tp parts and gathered; sequence parallelism has split it already.
  const bool scattered = c.engine->scattered_messages && s.tp > 1 && s.sp == SequenceParallel::none && s.partition.empty();
  const double gather = scattered ? all_gather_s(c.tensor_levels, tp_group(c.levels, s), bytes) : 0.0;
  t.send_forward_ns = t.send_backward_ns =
      ns(point_to_point_s(c.levels, level, scattered ? bytes / s.tp : bytes) + gather + host);
}

double update_bytes(const CostContext& c, const StatePolicy& p, const ParameterElements& e, const Strategy& s) {
  const double shard = s.zero > 0 ? static_cast<double>(s.shard) : 1.0;
  const double expert_shard = s.zero > 0 ? static_cast<double>(std::gcd(std::int64_t{s.shard}, s.expert_data_ranks())) : 1.0;
  const double elements = static_cast<double>(e.dense) / shard + static_cast<double>(e.expert) / expert_shard;
  const double whole = c.engine->whole_gradient_bytes * static_cast<double>(e.dense + e.expert);
  const double gradient =
      (whole > 0 ? 1.0 : 2.0) * p.gradient;  // the update reads it, and so does the norm unless that is in `whole`
  const double bytes = gradient + 2.0 * p.master + 2.0 * p.optimizer + (p.master > 0 ? 1.0 : 2.0) * p.parameter;
  return elements * bytes + whole;
}

namespace {

constexpr double kUpdateLaunches = 8;  // kernels of norm, clipping and update

/// Communication that the end of the step waits for.
void add_exposed(std::int64_t ns, StageTiming& stage) {
  stage.optimizer_ns += ns;
  stage.optimizer_exposed_ns += ns;
}

}  // namespace

double optimizer_s(const CostContext& c, double bytes) {
  return memory_bound_s(c.rates, bytes) + kUpdateLaunches * c.rates.launch + c.engine->coefficients.step_s;
}

void fill_optimizer(const CostContext& c, double bytes, StageTiming& stage) {
  stage.optimizer_ns = ns(optimizer_s(c, bytes));
  stage.optimizer_exposed_ns = 0;
  // Each part is rounded by itself, so that it never exceeds what is left of the whole.
  stage.step_host_ns = std::min(stage.optimizer_ns, ns(c.engine->coefficients.step_s));
  stage.optimizer_launch_ns = std::min(stage.optimizer_ns - stage.step_host_ns, ns(kUpdateLaunches * c.rates.launch));
}

void expose_reduction(const CostContext& c, std::int64_t table_elements, const Lowering& lowering, PlanTiming& out) {
  if (!lowering.reduce_gradients || !lowering.overlap_reduce) return;
  const double share = c.engine->coefficients.exposed_share;
  const bool shared_table = c.model->tied_embeddings && out.chunks.size() == 1;
  const double table = shared_table ? static_cast<double>(table_elements) : 0.0;
  for (std::size_t i = 0; i < out.chunks.size(); ++i) {
    ChunkTiming& t = out.chunks[i];
    const double all = static_cast<double>(std::max<std::int64_t>(1, t.dense_parameters + t.expert_parameters));
    const double late = share + (1.0 - share) * std::min(1.0, table / all);
    const auto waited = static_cast<std::int64_t>(late * static_cast<double>(t.grad_reduce_ns));
    t.grad_reduce_ns -= waited;
    add_exposed(waited * lowering.pieces[i],
                out.stages[static_cast<std::size_t>(place_of_chunk(lowering.schedule, static_cast<std::int32_t>(i)).stage)]);
  }
}

void add_gradient_sync(const Lowering& lowering, PlanTiming& out) {
  for (std::size_t i = 0; i < out.chunks.size(); ++i)
    add_exposed(out.chunks[i].gradient_sync_ns,
                out.stages[static_cast<std::size_t>(place_of_chunk(lowering.schedule, static_cast<std::int32_t>(i)).stage)]);
}

std::int64_t message_bytes(const PlanTiming& timing) {
  std::int64_t most = 0;
  for (const ChunkTiming& t : timing.chunks) most = std::max(most, t.boundary_bytes);
  return most;
}

std::int64_t deferred_bytes(const CostContext& c, const Schedule& schedule, const std::vector<LayerCost>& layers) {
  const std::int64_t waiting = std::min<std::int64_t>(c.engine->loss.deferred, schedule.microbatches);
  if (waiting == 0 || schedule.stages == 1) return 0;
  std::int64_t logits = 0;
  for (std::size_t k = 0; k < layers.size(); ++k)
    if (c.model->kinds[k].role == LayerRole::head) logits = std::max(logits, layers[k].transient.backward);
  return waiting * logits;
}

}  // namespace espalier::cost
