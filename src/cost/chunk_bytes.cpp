// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_bytes.h"

#include "base/check.h"

namespace espalier::cost {

void refill_bytes(const Model& model, const SplitTable& split, const std::vector<LayerCost>& layers, const Recompute& recompute,
                  const ProgramStructure& structure, Costs& costs) {
  ESPALIER_CHECK(split.chunks() == structure.chunks() && layers.size() == model.kinds.size() && costs.fits(structure));
  for (std::int32_t i = 0; i < split.chunks(); ++i) {
    if (const std::int32_t twin = split.twin(i); twin != i) {
      costs.set_bytes(structure, i, costs.bytes_of(structure, twin));
      continue;
    }
    ChunkBytes bytes;
    each_run(model, split.runs(i), recompute, [&](std::int32_t kind, std::int64_t n, RecomputeKind how) {
      bytes.add(layers[static_cast<std::size_t>(kind)], n, how);
    });
    costs.set_bytes(structure, i, bytes.bytes());
  }
}

}  // namespace espalier::cost
