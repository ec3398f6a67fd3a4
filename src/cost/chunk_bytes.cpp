// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_bytes.h"

#include "base/invariant.h"
#include "cost/bound_formulas.h"
#include "cost/chunk_sum.h"
#include "plan/shared_table.h"

namespace espalier::cost {
namespace {

/// Provides the bytes under the names of the formulas.
struct UniformBytesView {
  const UniformBytes& held;
  const Schedule& s;
  [[nodiscard]] const Schedule& schedule() const { return s; }
  [[nodiscard]] const PassBytes& bytes(std::int32_t c) const { return held.of(c); }
};

}  // namespace

void fill_stages(const CostContext& c, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                 const std::vector<LayerCost>& layers, Costs& out) {
  out.stages.assign(static_cast<std::size_t>(schedule.stages), StageCost{});
  out.message = Bytes(0);
  std::vector<ChunkId> copies;
  table_chunks(*c.workload.model, schedule, split.layer_counts(), copies);
  for (std::int32_t i = 0; i < split.chunks(); ++i) {
    const StageId here(place_of_chunk(schedule, i).stage);
    StageCost& stage = out.stages[here];
    ParameterElements held;
    for (const SplitTable::Run& run : split.runs(i)) {
      const LayerCost& layer = layers[static_cast<std::size_t>(run.kind)];
      held += layer.elements().times(run.layers);
      stage.memory.framework = std::max(stage.memory.framework, layer.buffer_bytes);
    }
    if (holds_copy(copies, ChunkId(i))) held += table_elements(*c.workload.model, *c.engine, c.workload.training, s);
    stage.dense_parameters += held.dense;
    stage.expert_parameters += held.expert;
    stage.frozen_dense_bytes += held.frozen_dense;
    stage.frozen_expert_bytes += held.frozen_expert;
    if (i == 0 || StageId(place_of_chunk(schedule, i - 1).stage) == here) continue;
    const auto sender = static_cast<std::size_t>(split.runs(i - 1).back().kind);
    out.message = std::max(out.message, Bytes(layers[sender].boundary_bytes));
  }
  for (StageCost& stage : out.stages) stage.memory.framework += c.device.workspace_bytes;
  out.stages[StageId(schedule.stages - 1)].memory.framework += deferred_bytes(*c.workload.model, *c.engine, schedule, layers);
}

void UniformBytes::fill(const Model& model, const SplitTable& split, const std::vector<LayerCost>& layers,
                        const Recompute& recompute) {
  ESPALIER_CHECK(layers.size() == model.kinds.size());
  split_ = &split;
  classes_.resize(static_cast<std::size_t>(split.chunks()));
  for (std::int32_t i = 0; i < split.chunks(); ++i) {
    if (split.twin(i) != i) continue;
    ChunkBytes bytes;
    each_run(model, split.runs(i), recompute, [&](std::int32_t kind, std::int64_t n, RecomputeKind how) {
      bytes.add(layers[static_cast<std::size_t>(kind)], n, how);
    });
    classes_[static_cast<std::size_t>(i)] = bytes.bytes();
  }
}

std::int64_t UniformBytes::least_activations(const Schedule& schedule, std::int32_t stage) const {
  return activations_bound_bytes(UniformBytesView{*this, schedule}, stage);
}

}  // namespace espalier::cost
