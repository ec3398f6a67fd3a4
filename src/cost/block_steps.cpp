// SPDX-License-Identifier: Apache-2.0
#include "cost/block_steps.h"

#include <cmath>
#include <utility>

#include "base/invariant.h"
#include "cost/rounding.h"
#include "plan/engine.h"

namespace espalier::cost {
namespace {

/// Names an operator of the block as its steps do.
struct Named {
  std::string name;
  std::int32_t op = -1;
};

void append(const PhaseSteps& from, const Named& node, PhaseSteps& to) {
  const auto offset = static_cast<std::int32_t>(to.steps.size());
  for (std::size_t i = 0; i < from.steps.size(); ++i) {
    Step step = from.steps[i];
    step.op = node.op;
    step.name = node.name;
    if (step.first >= 0) {
      step.first += offset;
      step.last += offset;
    }
    to.add(std::move(step), from.costs[i]);
  }
}

void append_move(std::int64_t ns, double bytes, StepPart part, const Named& node, PhaseSteps& to) {
  if (ns == 0) return;
  Step step;
  step.part = part;
  step.op = node.op;
  step.name = node.name;
  step.traffic = {CollectiveKind::resharding, GroupKind::operators, bytes, 1};
  step.placement = part == StepPart::forward ? Placement::before : Placement::after;
  StepCost cost;
  cost.communication_s = seconds_of(ns);
  cost.counted = Counted::each;
  to.add(std::move(step), cost);
}

class BlockSteps {
 public:
  BlockSteps(const PricedBlock& block, const LayerKind& kind) : block_(block), kind_(kind) {}

  LayerSteps run(PartitionCosts& costs, const std::vector<partition::PartitionSequence>& sequences) {
    const int last = block_.graph.nodes() - 1;
    std::vector<OperatorSteps> operators;
    for (int n = 1; n <= last; ++n)
      operators.push_back(
          costs.steps(block_.graph.operators[static_cast<std::size_t>(n)], sequences[static_cast<std::size_t>(n) - 1]));
    for (int n = 1; n <= last; ++n) add_forward(n, operators[static_cast<std::size_t>(n) - 1]);
    for (int n = last; n >= 1; --n) add_backward(n, operators[static_cast<std::size_t>(n) - 1]);
    add_launches(costs.context());
    return std::move(steps_);
  }

 private:
  [[nodiscard]] Named named(int node) const {
    const PartitionedOperator& at = block_.graph.operators[static_cast<std::size_t>(node)];
    const auto op = static_cast<std::int32_t>(at.op - kind_.operators.data());
    ESPALIER_CHECK(op >= 0 && op < static_cast<std::int32_t>(kind_.operators.size()));
    return {at.shape.name, op};
  }

  void add_forward(int n, const OperatorSteps& steps) {
    const Named node = named(n);
    for (std::size_t e = 0; e < block_.graph.edges.size(); ++e) {
      const auto& moved = block_.cost.redistributions[e];
      if (block_.graph.edges[e].to == n)
        append_move(moved.forward_ns, moved.forward_bytes, StepPart::forward, node, steps_.forward);
    }
    append(steps.forward, node, steps_.forward);
  }

  void add_backward(int n, const OperatorSteps& steps) {
    const Named node = named(n);
    for (PhaseSteps* phase : {&steps_.backward, &steps_.backward_input}) append(steps.backward_input, node, *phase);
    for (PhaseSteps* phase : {&steps_.backward, &steps_.backward_weight}) append(steps.backward_weight, node, *phase);
    for (std::size_t e = 0; e < block_.graph.edges.size(); ++e) {
      const auto& moved = block_.cost.redistributions[e];
      if (block_.graph.edges[e].to != n) continue;
      for (PhaseSteps* phase : {&steps_.backward, &steps_.backward_input})
        append_move(moved.backward_ns, moved.backward_bytes, StepPart::input_gradient, node, *phase);
    }
  }

  void add_launches(const CostContext& context) {
    int forward = 0, input = 0, weight = 0;
    for (const PartitionCost& c : block_.cost.operators) {
      forward += c.forward.kernels;
      input += c.backward_input.kernels;
      weight += c.backward_weight.kernels;
    }
    const double launch =
        context.engine->measured != nullptr ? 0.0 : context.device.rates.launch * context.engine->eager.eager_launches;
    steps_.forward.host_s = launch * forward;
    steps_.backward.host_s = launch * (input + weight);
    steps_.backward_input.host_s = launch * input;
    steps_.backward_weight.host_s = launch * weight;
  }

  const PricedBlock& block_;
  const LayerKind& kind_;
  LayerSteps steps_;
};

}  // namespace

LayerSteps block_steps(PartitionCosts& costs, const PricedBlock& block, const LayerKind& kind,
                       const std::vector<partition::PartitionSequence>& sequences) {
  return BlockSteps(block, kind).run(costs, sequences);
}

void add_gradient_reductions(const PricedBlock& block, LayerSteps& steps) {
  double seconds = 0;
  std::int64_t before = 0;
  for (const PartitionCost& c : block.cost.operators) {
    if (c.gradient_sync <= 0) continue;
    seconds += c.gradient_sync;
    Step step;
    step.part = StepPart::weight_gradient;
    step.traffic = {CollectiveKind::all_reduce, GroupKind::operators, c.gradient_sync_bytes, 1};
    StepCost cost;
    cost.communication_s = seconds_of(std::llround(seconds * 1e9) - before);
    cost.counted = Counted::on_top;
    before = std::llround(seconds * 1e9);
    steps.backward.add(step, cost);
    steps.backward_weight.add(step, cost);
  }
}

}  // namespace espalier::cost
