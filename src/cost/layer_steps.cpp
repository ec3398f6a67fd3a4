// SPDX-License-Identifier: Apache-2.0
#include "cost/layer_steps.h"

#include <utility>

#include "base/invariant.h"
#include "cost/layer_operators.h"
#include "cost/partitioned_block.h"
#include "cost/step_record.h"

namespace espalier::cost {
namespace {

LayerSteps megatron_steps(const LayerPricing& scene, const LayerKind& kind) {
  const LayerPricing x = overlaps_experts(scene) ? beside_other_micro_batch(scene, kind) : scene;
  Sums<StepRecord> sum;
  add_layer(sum, x, kind);
  const LayerWaits waits = waits_of(sum, x);
  const auto phase = [&](SumPhase which, double network_s, double host_s) {
    PhaseSteps steps = sum.record.steps_of(which, kind);
    steps.network_wait_s = network_s;
    steps.host_s = host_s;
    return steps;
  };
  LayerSteps steps;
  steps.forward = phase(SumPhase::forward, waits.network_forward, waits.host_forward);
  if (!kind.backward) return steps;
  return {std::move(steps.forward), phase(SumPhase::backward, waits.network_back, waits.host_backward),
          phase(SumPhase::input, waits.network_back, waits.host_input), phase(SumPhase::weight, 0, waits.host_weight),
          phase(SumPhase::selective, 0, 0)};
}

/// Adds a gather that makes an activation whole on every device of the group. It follows the last partitioned block,
/// or precedes the first one backward.
void add_gather(std::int64_t gather_ns, double bytes, StepPart part, PhaseSteps& phase) {
  if (gather_ns == 0) return;
  Step step;
  step.part = part;
  step.traffic = {CollectiveKind::resharding, GroupKind::operators, bytes, 1};
  step.placement = Placement::before;
  StepCost cost;
  cost.communication_s = static_cast<double>(gather_ns) * 1e-9;
  cost.counted = Counted::on_top;
  phase.steps.insert(phase.steps.begin(), step);
  phase.costs.insert(phase.costs.begin(), cost);
  for (Step& s : phase.steps) {
    if (s.first < 0) continue;
    ++s.first;
    ++s.last;
  }
}

/// Adds gathers to layers without a partition, next to blocks that are partitioned.
void add_gathers(const CostContext& c, const Strategy& s, std::int32_t micro_batch, LayerRole role, LayerSteps& steps) {
  std::int64_t gather_ns = 0;
  double bytes = 0;
  for (std::size_t i = 0; i < c.workload.model->kinds.size(); ++i) {
    if (c.workload.model->kinds[i].role != LayerRole::block) continue;
    const BlockCost& block = c.partitions->block(c, static_cast<std::int32_t>(i), micro_batch, s.tp, s.partition);
    const std::int64_t one = std::llround(block.boundary_gather * 1e9);
    if (one > gather_ns) {
      gather_ns = one;
      bytes = block.boundary_gather_bytes;
    }
  }
  if (role != LayerRole::embedding) return add_gather(gather_ns, bytes, StepPart::forward, steps.forward);
  add_gather(gather_ns, bytes, StepPart::input_gradient, steps.backward);
  add_gather(gather_ns, bytes, StepPart::input_gradient, steps.backward_input);
}

/// Checks that the steps add up to the cost: whatever adds to one without the other is found here.
void check_sums(const LayerSteps& steps, const LayerCost& cost) {
  ESPALIER_CHECK(phase_time(steps.forward) == cost.forward);
  ESPALIER_CHECK(phase_time(steps.backward) == cost.backward);
  ESPALIER_CHECK(phase_time(steps.backward_input) == cost.backward_input);
  ESPALIER_CHECK(phase_time(steps.backward_weight) == cost.backward_weight);
  ESPALIER_CHECK(phase_time(steps.recompute_selective) == cost.recompute_selective);
}

}  // namespace

LayerSteps layer_steps(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
                       std::int32_t kind) {
  const LayerKind& layer = c.workload.model->kinds[static_cast<std::size_t>(kind)];
  LayerSteps steps;
  if (!s.partition.empty() && layer.role == LayerRole::block) {
    auto block = priced_block(c, layer, micro_batch, s.tp, s.partition);
    ESPALIER_CHECK(block.ok());
    steps = std::move(block->steps);
    if (s.shards_gradients()) add_gradient_reductions(*block, steps);
  } else {
    steps = megatron_steps(layer_pricing_of(c, s, stages, micro_batch, layer, waits_for_hosts(c.fabric, *c.engine, s, stages)),
                           layer);
    if (!s.partition.empty()) add_gathers(c, s, micro_batch, layer.role, steps);
  }
  std::vector<LayerCost> costs;
  layer_costs(c, s, stages, micro_batch, costs);
  check_sums(steps, costs[static_cast<std::size_t>(kind)]);
  return steps;
}

}  // namespace espalier::cost
