// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_sum.h"

#include "base/invariant.h"
#include "cost/collective.h"
#include "cost/rounding.h"
#include "cost/table_exchange.h"
#include "cost/zero_buffers.h"
#include "plan/engine.h"
#include "plan/expert_shard.h"

namespace espalier::cost {
namespace {

double reduced_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes, Cut cut) {
  return cut == Cut::none ? all_reduce_s(levels, group, bytes) : all_reduce_least_s(levels, group, bytes);
}

}  // namespace

StrategyCost strategy_cost_of(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers,
                              ChunkEdges edges) {
  StrategyCost x{{c, s, states_of(*c.engine, c.workload.training), data_groups(c.fabric, s, stages)}, layers, {}, {}};
  x.groups.gathers_again = gathers_again(c, s, stages, layers);
  if (s.shards_gradients())  // otherwise there is nothing inside chunks
    for (std::size_t k = 0; k < layers.size(); ++k) x.zero[k] = zero_time(c, x.groups, s, x.states, layers[k], edges);
  x.host.fill(c, s, x.states, layers, x.zero.data());
  return x;
}

void LayerCopies::fill(const CostContext& c, const Strategy& s, const StatePolicy& states, const std::vector<LayerCost>& layers,
                       const ZeroTime* zero) {
  copies_.clear();
  if (!copies_in_passes(s.offload)) return;
  copies_.resize(layers.size());
  for (std::size_t k = 0; k < layers.size(); ++k)
    for (const RecomputeKind how : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full})
      copies_[k][static_cast<std::size_t>(how)] = host_copies(c.device.host, *c.engine, states, layers[k], zero[k], s, how);
}

TableTime table_time(const Sharing& x, const Sharing& layer, const LayerCost& user, const ParameterElements& elements,
                     ChunkEdges edges) {
  LayerCost table;
  table.forward = user.forward;
  table.backward = user.backward;
  table.passes_gradient = user.passes_gradient;
  table.set_elements(elements);
  TableTime time;
  const HiddenTraffic before = hidden_traffic(layer.c.fabric, layer.groups, layer.s, layer.states, user.elements());
  time.zero = zero_time(x.c, x.groups, x.s, x.states, table, edges, before);
  time.host = host_copies(x.c.device.host, *x.c.engine, x.states, table, time.zero, x.s, RecomputeKind::none);
  return time;
}

double table_exchange_bytes(const Sharing& x) {
  return static_cast<double>(table_elements(*x.c.workload.model, *x.c.engine, x.c.workload.training, x.s).dense) *
         x.states.reduce;
}

double table_exchange_s(const Sharing& x, const Schedule& schedule, const std::vector<ChunkId>& copies) {
  const auto& levels = x.c.fabric.levels;
  const double bytes = table_exchange_bytes(x);
  if (copies.size() < 2 || bytes <= 0) return 0.0;
  const auto stage = [&](std::size_t i) { return place_of_chunk(schedule, copies[i].value).stage; };
  double longest = 0;
  for (std::size_t a = 0; a < copies.size(); ++a)
    for (std::size_t b = a + 1; b < copies.size(); ++b) {
      if (stage(a) == stage(b)) continue;
      const int level = stage_link_level(x.c.fabric.placing(), x.s, schedule.stages, stage(a), stage(b));
      longest = std::max(longest, exchange_s(levels, level, copies.size(), bytes));
    }
  return longest;
}

double tensor_sync_s(const Sharing& x, const TensorSync& sync, Cut cut) {
  const auto& levels = x.c.fabric.data_levels;
  double t = 0;
  if (const double bytes = static_cast<double>(sync.whole) * x.states.reduce; bytes > 0)
    t += reduced_s(levels, tp_group(x.c.fabric.placing(), x.s), bytes, cut);
  if (const double bytes = static_cast<double>(sync.key_value) * x.states.reduce; bytes > 0)
    t += reduced_s(levels, run_group(x.c.fabric.placing(), sync.holders), bytes, cut);
  return t;
}

double passing(const Fabric& fabric, const StepMessage& m) { return moved_bytes(m.kind, fabric.data_levels, m.placed, m.bytes); }

double message_s(const Fabric& fabric, const StepMessage& m, Cut cut) {
  const auto& levels = fabric.data_levels;
  if (m.kind == CollectiveKind::all_gather || m.kind == CollectiveKind::reduce_scatter)
    return cut == Cut::none ? all_gather_s(levels, m.placed, m.bytes) : all_gather_least_s(levels, m.placed, m.bytes);
  ESPALIER_CHECK(m.kind == CollectiveKind::all_reduce);
  if (m.message_bytes > 0 && m.bytes > m.message_bytes)
    return m.bytes / m.message_bytes * reduced_s(levels, m.placed, m.message_bytes, cut);
  return reduced_s(levels, m.placed, m.bytes, cut);
}

double reduce_bucket_s(const Sharing& x, double dense, double expert, double buckets, Cut cut) {
  double t = 0;
  each_reduction(x, dense, expert, buckets, [&](const StepMessage& m) { t += message_s(x.c.fabric, m, cut); });
  return t;
}

double gather_bucket_s(const Sharing& x, double dense, double expert, double buckets, Cut cut) {
  double t = 0;
  each_gather(x, dense, expert, buckets, [&](const StepMessage& m) { t += message_s(x.c.fabric, m, cut); });
  return t;
}

double reduce_bucket_bytes(const Sharing& x, double dense, double expert, double buckets) {
  double bytes = 0;
  each_reduction(x, dense, expert, buckets, [&](const StepMessage& m) { bytes += passing(x.c.fabric, m); });
  return bytes;
}

double gather_bucket_bytes(const Sharing& x, double dense, double expert, double buckets) {
  double bytes = 0;
  each_gather(x, dense, expert, buckets, [&](const StepMessage& m) { bytes += passing(x.c.fabric, m); });
  return bytes;
}

std::int64_t message_ns(const CostContext& c, const Strategy& s, double bytes, int level) {
  const double host = message_host_s(*c.engine, c.device.rates.call);
  // A tensor that every tensor-parallel rank holds can be sent in tp parts and gathered; sequence parallelism has
  // split it already.
  const bool scattered =
      c.engine->communication.scattered_messages && s.tp > 1 && s.sp == SequenceParallel::none && s.partition.empty();
  const double gather = scattered ? all_gather_s(c.fabric.tensor_levels, tp_group(c.fabric.placing(), s), bytes) : 0.0;
  return round_ns(point_to_point_s(c.fabric.levels, level, scattered ? bytes / s.tp : bytes) + gather + host);
}

std::int64_t transfer_ns(const CostContext& c, const Strategy& sender, std::int64_t bytes, const Schedule& schedule,
                         std::int32_t i) {
  const std::int32_t here = place_of_chunk(schedule, i).stage, before = place_of_chunk(schedule, i - 1).stage;
  if (before == here) return 0;
  return message_ns(c, sender, static_cast<double>(bytes),
                    stage_link_level(c.fabric.placing(), sender, schedule.stages, before, here));
}

std::int64_t late_reduction_ns(const CostContext& c, const Strategy& first, std::int32_t chunks,
                               const ParameterElements& elements, std::int64_t reduce_ns) {
  const double share = c.engine->coefficients.exposed_share;
  const bool shared_table = c.workload.model->tied_embeddings && chunks == 1;
  const double table =
      shared_table ? static_cast<double>(table_elements(*c.workload.model, *c.engine, c.workload.training, first).dense) : 0.0;
  const double all = static_cast<double>(std::max<std::int64_t>(1, elements.dense + elements.expert));
  const double late = share + (1.0 - share) * std::min(1.0, table / all);
  return static_cast<std::int64_t>(late * static_cast<double>(reduce_ns));
}

double update_bytes(const EngineModel& engine, const StatePolicy& p, const ParameterElements& e, const Strategy& s) {
  const double elements = own_elements(e, s).trained;
  const double whole = engine.eager.whole_gradient_bytes * static_cast<double>(e.dense + e.expert);
  // Under offload the device computes only the norm, and nothing of gradients that lie on the host.
  if (offloads_parameters(s.offload)) return 0;
  if (offloads_optimizer(s.offload)) return elements * (whole > 0 ? 0.0 : p.gradient) + whole;
  // The update reads the gradient, and so does the norm unless `whole` includes it.
  const double gradient = (whole > 0 ? 1.0 : 2.0) * p.gradient;
  const double bytes =
      gradient + 2.0 * p.master + 2.0 * p.optimizer + (p.master > 0 ? 1.0 : 2.0) * p.parameter + engine.kernels.update_copy_bytes;
  return elements * bytes + whole;
}

double optimizer_s(const DeviceCost& device, const EngineModel& engine, double bytes) {
  if (device.update_rate > 0) return bytes / device.update_rate + engine.coefficients.step_s;
  return memory_bound_s(device.rates, bytes) + engine.facts.update_launches * device.rates.launch + engine.coefficients.step_s;
}

PhaseTime optimizer_time(const DeviceCost& device, const EngineModel& engine, double bytes, Nanoseconds& step_host) {
  const std::int64_t whole = round_ns(optimizer_s(device, engine, bytes));
  // Each part is rounded by itself, so that it never exceeds what is left of the whole.
  const std::int64_t host_ns = std::min(whole, round_ns(engine.coefficients.step_s));
  step_host = Nanoseconds(host_ns);
  PhaseTime t;
  const bool measured = device.update_rate > 0;  // launches included
  t.other_ns = measured ? 0 : std::min(whole - host_ns, round_ns(engine.facts.update_launches * device.rates.launch));
  t.compute_ns = whole - t.other_ns;
  return t;
}

std::int64_t deferred_bytes(const Model& model, const EngineModel& engine, const Schedule& schedule,
                            const std::vector<LayerCost>& layers) {
  const std::int64_t waiting = std::min<std::int64_t>(engine.memory.loss.deferred, schedule.microbatches);
  if (waiting == 0 || schedule.stages == 1) return 0;
  std::int64_t logits = 0;
  for (std::size_t k = 0; k < layers.size(); ++k)
    if (model.kinds[k].role == LayerRole::head) logits = std::max(logits, layers[k].transient.backward);
  return waiting * logits;
}

}  // namespace espalier::cost
