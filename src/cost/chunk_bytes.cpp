// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_bytes.h"

#include "cost/bound_formulas.h"

namespace espalier::cost {
namespace {

/// By the names of the formulas.
struct View {
  const UniformBytes& held;
  const Schedule& s;
  [[nodiscard]] const Schedule& schedule() const { return s; }
  [[nodiscard]] const PassBytes& bytes(std::int32_t c) const { return held.of(c); }
};

}  // namespace

void UniformBytes::fill(const Model& model, const SplitTable& split, const std::vector<LayerCost>& layers,
                        const Recompute& recompute) {
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
  return activations_bound_bytes(View{*this, schedule}, stage);
}

}  // namespace espalier::cost
