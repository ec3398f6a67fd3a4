// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_bytes.h"

namespace espalier::cost {

void refill_bytes(const Model& model, const SplitTable& split, const std::vector<LayerCost>& layers, const Recompute& recompute,
                  PlanTiming& timing) {
  for (std::int32_t i = 0; i < split.chunks(); ++i) {
    ChunkTiming& t = timing.chunks[static_cast<std::size_t>(i)];
    if (const std::int32_t twin = split.twin(i); twin != i) {
      const ChunkTiming& same = timing.chunks[static_cast<std::size_t>(twin)];
      t.saved_bytes = same.saved_bytes;
      t.saved_after_input_bytes = same.saved_after_input_bytes;
      t.forward_transient_bytes = same.forward_transient_bytes;
      t.backward_transient_bytes = same.backward_transient_bytes;
      continue;
    }
    ChunkBytes bytes;
    each_run(model, split.runs(i), recompute, [&](std::int32_t kind, std::int64_t n, RecomputeKind how) {
      bytes.add(layers[static_cast<std::size_t>(kind)], n, how);
    });
    bytes.write(t);
  }
}

}  // namespace espalier::cost
