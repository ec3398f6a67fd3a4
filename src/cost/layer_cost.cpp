// SPDX-License-Identifier: Apache-2.0
#include "cost/layer_cost.h"

#include <algorithm>

#include "cost/layer_operators.h"
#include "cost/partitioned_block.h"
#include "cost/queued_outputs.h"
#include "cost/rounding.h"
#include "cost/state_memory.h"
#include "plan/engine.h"
#include "plan/structure.h"

namespace espalier::cost {
namespace {

PhaseTime phase(double compute, double exposed, double hidden, double launches_s) {
  PhaseTime t;
  t.compute_ns = round_ns(compute);
  t.exposed_ns = round_ns(exposed);
  t.hidden_ns = round_ns(hidden);
  t.other_ns = std::max<std::int64_t>(0, round_ns(launches_s) - t.compute_ns - t.exposed_ns);
  return t;
}

/// Makes a layer forward-only: no gradient has to pass through it, and nothing of its forward pass is kept.
void forward_alone(LayerCost& cost) {
  cost.passes_gradient = false;
  cost.backward = cost.backward_input = cost.backward_weight = cost.recompute_selective = PhaseTime{};
  cost.saved = cost.hosted = SavedBytes{};
  cost.transient.backward = 0;
}

LayerCost cost_in(const LayerPricing& x, const LayerKind& kind) {
  Sums<NoRecord> sum;
  add_layer(sum, x, kind);
  const LayerWaits waits = waits_of(sum, x);
  LayerCost cost;
  cost.forward = phase(sum.forward, sum.exposed_forward + waits.network_forward, sum.hidden_forward, waits.host_forward);
  cost.backward = phase(sum.input_gradient + sum.weight_gradient, sum.exposed_backward + waits.network_back, sum.hidden_backward,
                        waits.host_backward);
  cost.backward_input = phase(sum.input_gradient, sum.exposed_input + waits.network_back, 0, waits.host_input);
  cost.backward_weight = phase(sum.weight_gradient, sum.exposed_weight, 0, waits.host_weight);
  cost.recompute_selective = phase(sum.selective, sum.exposed_selective, 0, 0);
  cost.saved = saved_activations(kind, x.g, x.c.engine->memory.activations);
  cost.hosted = hosted_activations(kind, x.g, cost.saved);
  cost.transient = transient_activations(kind, x.g, x.c.engine->memory.activations);
  if (x.c.engine->memory.keeps_score_buffer && x.c.engine->memory.activations == ActivationPolicy::megatron_2022_unfused)
    cost.buffer_bytes = score_buffer(kind, x.g);
  if (x.c.engine->eager.queued_blocks > 0) cost.scattered_bytes = scattered_outputs(kind, x.g);
  if (!kind.backward) forward_alone(cost);
  return cost;
}

LayerCost cost_of(const LayerPricing& x, const LayerKind& kind) {
  return overlaps_experts(x) ? cost_in(beside_other_micro_batch(x, kind), kind) : cost_in(x, kind);
}

}  // namespace

LayerGeometry geometry_of(const Workload& w, const EngineModel& engine, const LayerKind& kind, const Strategy& s,
                          std::int32_t micro_batch) {
  LayerGeometry g;
  g.keys = attended_tokens(kind, w.training.sequence);
  g.tokens = tokens_per_sample(kind, w.training.sequence) * micro_batch / s.cp;
  g.cross_keys = w.training.sequence.encoder;
  g.cross_tokens = g.cross_keys * micro_batch / s.cp;
  g.element_bytes = w.element_bytes;
  g.operand_size = w.operand.cast ? w.operand.thirty_seconds : 32 * w.element_bytes;
  g.split = s.tp;
  g.sequence_split = s.sp == SequenceParallel::none ? 1 : s.tp;
  g.expert_split = s.etp;
  g.expert_parts = std::int64_t{s.ep} * s.etp;
  g.writes_weights_out = w.training.adapter.base != FrozenType::compute;
  // A rank cannot get more than all copies.
  g.imbalance = std::min(w.training.moe_imbalance, static_cast<double>(s.ep));
  g.weight_split = s.weight_tp();
  g.loss = engine.memory.loss;
  // For one sample [batch, sequence] and [sequence, batch] are the same.
  g.copies_attention_output = engine.memory.copies_attention_output && micro_batch > 1;
  g.eager_gate = engine.memory.eager_gate;
  g.copies_rotated = engine.eager.copies_rotated;
  g.offloaded = offloads_activations(s.offload) ? offloaded_share(engine, *w.model) : 0.0;
  g.weighs_inside_experts = engine.memory.weighs_inside_experts;
  g.again = s.recompute.modules.any() ? s.recompute.modules : engine.memory.selective;
  g.fuses_norms = engine.memory.fuses_norms;
  g.second_products = engine.facts.second_products_again;
  g.exchanges_tokens = s.ep > 1;
  g.activation_size = engine.memory.eight_bit_activations ? g.operand_size : 0;
  g.padded_vocabulary = padded_vocabulary(*w.model, engine, s.weight_tp());
  return g;
}

namespace {

/// Replaces blocks of plain tensor parallelism by partitioned ones.
void partition_blocks(const CostContext& c, const Strategy& s, std::int32_t micro_batch, std::vector<LayerCost>& out) {
  const auto& kinds = c.workload.model->kinds;
  std::int64_t gather = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].role != LayerRole::block) continue;
    out[i] = layer_cost_of(c.partitions->block(c, static_cast<std::int32_t>(i), micro_batch, s.tp, s.partition), s);
    gather = std::max(gather, out[i].boundary_gather_ns);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].role == LayerRole::block) continue;
    if (kinds[i].role == LayerRole::embedding) {
      out[i].backward.exposed_ns += gather;
      out[i].backward_input.exposed_ns += gather;
    } else
      out[i].forward.exposed_ns += gather;
  }
}

}  // namespace

void layer_costs(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
                 std::vector<LayerCost>& out) {
  const auto& kinds = c.workload.model->kinds;
  out.resize(kinds.size());
  const bool crosses = waits_for_hosts(c.fabric, *c.engine, s, stages);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const LayerPricing scene = layer_pricing_of(c, s, stages, micro_batch, kinds[i], crosses);
    out[i] = cost_of(scene, kinds[i]);
    out[i].set_elements(parameters_on_rank(*c.workload.model, kinds[i], *c.engine, c.workload.training, s));
    out[i].tensor_sync = tensor_sync(kinds[i], *c.engine, s);
    const std::int64_t boundary = boundary_elements(kinds[i], c.workload.training.sequence) * micro_batch;
    out[i].boundary_bytes = (boundary * c.workload.element_bytes / s.cp + scene.g.sequence_split - 1) / scene.g.sequence_split;
  }
  if (!s.partition.empty()) partition_blocks(c, s, micro_batch, out);
}

}  // namespace espalier::cost
