// SPDX-License-Identifier: Apache-2.0
// Implements 1F1B (PipeDream-Flush, Narayanan et al. 2021): p−i−1 warm-up forwards, then one forward and one backward
// in turn, then the remaining backwards. It has the same idle time as GPipe, (p−1)(F+B+W), with at most min(m, p−i)
// micro-batches in flight. One stage (p = 1) is plain gradient accumulation: F B F B …
#include <algorithm>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier {

std::vector<ChunkPass> one_f_one_b_order(const Schedule& schedule, std::int32_t stage) {
  ESPALIER_CHECK(schedule.virtual_stages == 1);
  const std::int32_t m = schedule.microbatches;
  const std::int32_t warm_up = std::min(m, schedule.stages - stage - 1);
  std::vector<ChunkPass> order;
  order.reserve(2 * static_cast<std::size_t>(m));
  for (std::int32_t j = 0; j < warm_up; ++j) order.push_back({InstructionKind::forward, 0, j});
  for (std::int32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) order.push_back({InstructionKind::forward, 0, warm_up + j});
    order.push_back({InstructionKind::backward, 0, j});
  }
  return order;
}

}  // namespace espalier
