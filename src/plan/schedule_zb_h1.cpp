// SPDX-License-Identifier: Apache-2.0
// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): 1F1B whose backward is split, with the weight gradients of stage i
// running i micro-batches late. The early input gradients reach the previous stage W sooner each, and the late weight gradients
// fill the wait at the end: idle (p−1)(F+B−W) when W ≤ F, W ≤ B and m ≥ p, in the memory of the first stage of 1F1B
// (p − i forwards ahead + i weight gradients behind = p).
#include <algorithm>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier {

std::vector<ChunkPass> zb_h1_order(const Schedule& schedule, std::int32_t stage) {
  ESPALIER_CHECK(schedule.virtual_stages == 1);
  const std::int32_t m = schedule.microbatches;
  const std::int32_t warm_up = std::min(m, schedule.stages - stage - 1);
  std::vector<ChunkPass> order;
  order.reserve(3 * static_cast<std::size_t>(m));
  for (std::int32_t j = 0; j < warm_up; ++j) order.push_back({InstructionKind::forward, 0, j});
  for (std::int32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) order.push_back({InstructionKind::forward, 0, warm_up + j});
    order.push_back({InstructionKind::backward_input, 0, j});
    if (j >= stage) order.push_back({InstructionKind::backward_weight, 0, j - stage});
  }
  for (std::int32_t j = std::max(0, m - stage); j < m; ++j) order.push_back({InstructionKind::backward_weight, 0, j});
  return order;
}

}  // namespace espalier
