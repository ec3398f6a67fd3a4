// SPDX-License-Identifier: Apache-2.0
#include "cost/queued_outputs.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/program.h"

namespace espalier::cost {

std::int64_t scattered_outputs(const LayerKind& kind, const LayerGeometry& g) {
  if (g.sequence_split == 1 || g.weight_split == 1) return 0;
  std::int64_t bytes = 0;
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::linear && op.split == TpSplit::row) bytes += g.element_bytes * g.tokens * op.out;
  return bytes;
}

std::int32_t queued_passes(const Schedule& schedule, std::int32_t stage) {
  const std::int32_t m = schedule.microbatches;
  if (schedule.stages == 1) return std::min(m, 2);
  return std::max(0, max_whole(schedule, stage) - 2);
}

std::int64_t queued_bytes(std::int64_t bytes, std::int64_t blocks, std::int32_t passes, std::int32_t most) {
  ESPALIER_CHECK(bytes >= 0 && blocks >= 0 && passes >= 0 && most >= 0);
  if (blocks == 0) return 0;
  return bytes * std::min<std::int64_t>(passes * blocks, most) / blocks;
}

}  // namespace espalier::cost
