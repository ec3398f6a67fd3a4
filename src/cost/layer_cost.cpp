// SPDX-License-Identifier: Apache-2.0
#include "cost/layer_cost.h"

#include <algorithm>
#include <cmath>

#include "cost/layer_operators.h"
#include "cost/partitioned_block.h"
#include "cost/state_memory.h"
#include "plan/structure.h"

namespace espalier::cost {
namespace {

std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }

PhaseTime phase(double compute, double exposed, double hidden, double launches_s) {
  PhaseTime t;
  t.compute_ns = ns(compute), t.exposed_ns = ns(exposed), t.hidden_ns = ns(hidden);
  t.other_ns = std::max<std::int64_t>(0, ns(launches_s) - t.compute_ns - t.exposed_ns);
  return t;
}

LayerCost cost_of(const Scene& x, const LayerKind& kind) {
  Sums<NoRecord> sum;
  add_layer(sum, x, kind);
  const LayerWaits waits = waits_of(sum, x);
  LayerCost cost;
  cost.forward = phase(sum.forward, sum.exposed_forward + waits.network_forward, sum.hidden_forward, waits.host_forward);
  cost.backward = phase(sum.input_gradient + sum.weight_gradient, sum.exposed_backward + waits.network_back, sum.hidden_backward,
                        waits.host_backward);
  cost.backward_input = phase(sum.input_gradient, sum.exposed_input + waits.network_back, 0, waits.host_input);
  cost.backward_weight = phase(sum.weight_gradient, sum.exposed_weight, 0, waits.host_weight);
  cost.recompute_selective = phase(sum.selective, 0, 0, 0);
  cost.saved = saved_activations(kind, x.g, x.c.engine->memory.activations);
  cost.transient = transient_activations(kind, x.g, x.c.engine->memory.activations);
  return cost;
}

/// Rate of the engine's attention kernels relative to the device's own.
double attention_rate(AttentionKernel kernel, const DeviceEfficiency& device) {
  switch (kernel) {
    case AttentionKernel::vendor: return 1.0;
    case AttentionKernel::flash2: return device.attention_flash2;
    case AttentionKernel::flash1: return 0.6 * device.attention_flash2;
  }
  return 1.0;
}

/// The fabric as communication of one kind sees it: `time_scale` times slower than the fabric model.
std::vector<FabricLevel> scaled(std::vector<FabricLevel> levels, double time_scale) {
  for (FabricLevel& level : levels) level.efficiency /= time_scale, level.latency = Seconds(level.latency.count() * time_scale);
  return levels;
}

}  // namespace

namespace {

std::int64_t workspace_bytes_of(const WorkspacePolicy& w, const DeviceKind& device) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const bool hopper = device.peak_of(Precision::fp8).count() > 0;  // Hopper and later
  const std::int64_t cublas = hopper || w.deterministic ? 32 * kMiB : 8 * kMiB + kMiB / 8;
  return w.cublas * cublas + w.transformer_engine * (hopper ? 32 : 4) * kMiB;
}

}  // namespace

CostContext::CostContext(const Model& m, const Cluster& cluster, const Training& t, const EngineModel& e)
    : model(&m),
      levels(cluster.levels()),
      tensor_levels(scaled(levels, e.coefficients.tensor_communication)),
      data_levels(scaled(levels, e.coefficients.data_communication)),
      rates(rates_of(cluster.groups.front().device, t.precision)),
      training(t),
      engine(&e),
      world(cluster.devices()),
      node_levels(static_cast<int>(cluster.groups.front().intra.size())),
      partitions(std::make_shared<PartitionMemo>()) {
  experts = has_experts(m);
  efficiency = cluster.groups.front().device.efficiency;
  memory_bandwidth = cluster.groups.front().device.memory_bandwidth.count();
  for (double* rate :
       {&rates.gemm, &rates.gemm_wide, &rates.batched, &rates.grouped, &rates.attention, &rates.attention_backward})
    *rate /= e.coefficients.compute;
  rates.launch *= e.kernels.host_launches * e.coefficients.launch;
  const double kernel = attention_rate(e.kernels.attention_kernel, efficiency);
  rates.attention *= kernel, rates.attention_backward *= kernel;
  workspace_bytes = workspace_bytes_of(e.memory.workspace, cluster.groups.front().device);
  element_bytes = t.precision == Precision::fp32 || t.precision == Precision::tf32 ? 4 : 2;
  operand_bytes = t.precision == Precision::fp8 ? 1 : element_bytes;
  for (std::size_t i = 0; i < m.layers.size(); ++i)
    if (m.layer(i).stream == TokenStream::encoder) encoder_hidden = m.layer(i).hidden;
}

void CostContext::place(const Plan& plan) {
  listed = devices_in_order(plan) ? nullptr : std::make_shared<const StageDevices>(stage_devices(plan.only_pipeline()));
}

Slowdown CostContext::slowdown(const std::vector<FabricLevel>& on, const Group& group) const {
  return slowdown_of(on, group, efficiency, memory_bandwidth);
}

LayerGeometry geometry_of(const CostContext& c, const LayerKind& kind, const Strategy& s, std::int32_t micro_batch) {
  LayerGeometry g;
  g.keys = tokens_per_sample(kind, c.training.sequence);
  g.tokens = g.keys * micro_batch / s.cp;
  g.cross_keys = c.training.sequence.encoder;
  g.cross_tokens = g.cross_keys * micro_batch / s.cp;
  g.element_bytes = c.element_bytes;
  g.split = s.tp;
  g.sequence_split = s.sp == SequenceParallel::none ? 1 : s.tp;
  g.expert_split = s.etp;
  g.imbalance = std::min(c.training.moe_imbalance, static_cast<double>(s.ep));  // a rank cannot get more than all copies
  g.weight_split = s.weight_tp();
  g.loss = c.engine->memory.loss;
  // of one sample [batch, sequence] and [sequence, batch] are the same
  g.copies_attention_output = c.engine->memory.copies_attention_output && micro_batch > 1;
  g.eager_gate = c.engine->memory.eager_gate;
  g.keeps_gathered = c.engine->memory.keeps_gathered;
  g.padded_vocabulary = padded_vocabulary(*c.model, *c.engine, s.weight_tp());
  return g;
}

namespace {

/// Puts partitioned blocks in place of those of plain tensor parallelism.
void partition_blocks(const CostContext& c, const Strategy& s, std::int32_t micro_batch, std::vector<LayerCost>& out) {
  const auto& kinds = c.model->kinds;
  std::int64_t gather = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].role != LayerRole::block) continue;
    out[i] = layer_cost_of(c.partitions->block(c, static_cast<std::int32_t>(i), micro_batch, s.tp, s.partition), s);
    gather = std::max(gather, out[i].boundary_gather_ns);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].role == LayerRole::block) continue;
    if (kinds[i].role == LayerRole::embedding)
      out[i].backward.exposed_ns += gather, out[i].backward_input.exposed_ns += gather;
    else
      out[i].forward.exposed_ns += gather;
  }
}

}  // namespace

void layer_costs(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
                 std::vector<LayerCost>& out) {
  const auto& kinds = c.model->kinds;
  out.resize(kinds.size());
  const bool crosses = waits_for_hosts(c, s, stages);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Scene scene = scene_of(c, s, stages, micro_batch, kinds[i], crosses);
    out[i] = cost_of(scene, kinds[i]);
    const ParameterElements p = parameters_on_rank(*c.model, kinds[i], *c.engine, s);
    out[i].dense_parameters = p.dense, out[i].expert_parameters = p.expert;
    out[i].tensor_sync = tensor_sync(kinds[i], s);
    const std::int64_t boundary = boundary_elements(kinds[i], c.training.sequence, c.encoder_hidden) * micro_batch;
    out[i].boundary_bytes = (boundary * c.element_bytes / s.cp + scene.g.sequence_split - 1) / scene.g.sequence_split;
  }
  if (!s.partition.empty()) partition_blocks(c, s, micro_batch, out);
}

}  // namespace espalier::cost
