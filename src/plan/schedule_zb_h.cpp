// SPDX-License-Identifier: Apache-2.0
// Implements the zero-bubble schedules with one chunk per stage (Qi et al. 2023, "Zero Bubble Pipeline Parallelism").
// They are 1F1B with a split backward, and weight gradients that run some micro-batches late. Early input gradients
// reach each previous stage W sooner, and late weight gradients fill the wait at the end.
//
//   zb-h1    p − i − 1 forwards ahead of 1F1B's pairs, and weight gradients i micro-batches late.
//            p − i whole passes and i that wait: every stage needs the memory of 1F1B's first stage.
//            Idle (p−1)(F+B−W) if W ≤ F, W ≤ B, m ≥ p.
//   zb-h2    twice as many forwards ahead and twice as late: 2(p − i) − 1 forwards before the first input gradient
//            and 2i that wait, 2p − 1 micro-batches on every stage. Between its first and its last pass a stage
//            is idle for at most (p−1)(F+B−2W), and never if F = B = W (W ≤ F, W ≤ B, m ≥ 2p − 1).
//            Stage i starts iF late: a single step is idle for (p−1)·max(F, F+B−2W). Successive steps hide that
//            start if no stage waits for the others before its update (the paper's post-validation).
#include <algorithm>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier {
namespace {

/// Runs `ahead` forwards, then pairs of a forward and an input gradient, each with the weight gradient of
/// `late` micro-batches before.
std::vector<ChunkPass> late_weights(const Schedule& schedule, std::int32_t ahead, std::int32_t late) {
  ESPALIER_CHECK(schedule.virtual_stages == 1);
  const std::int32_t m = schedule.microbatches, warm_up = std::min(m, ahead);
  std::vector<ChunkPass> order;
  order.reserve(3 * static_cast<std::size_t>(m));
  for (std::int32_t j = 0; j < warm_up; ++j) order.push_back({InstructionKind::forward, 0, j});
  for (std::int32_t j = 0; j < m; ++j) {
    if (warm_up + j < m) order.push_back({InstructionKind::forward, 0, warm_up + j});
    order.push_back({InstructionKind::backward_input, 0, j});
    if (j >= late) order.push_back({InstructionKind::backward_weight, 0, j - late});
  }
  for (std::int32_t j = std::max(0, m - late); j < m; ++j) order.push_back({InstructionKind::backward_weight, 0, j});
  return order;
}

}  // namespace

std::vector<ChunkPass> zb_h1_order(const Schedule& schedule, std::int32_t stage) {
  return late_weights(schedule, schedule.stages - stage - 1, stage);
}

std::vector<ChunkPass> zb_h2_order(const Schedule& schedule, std::int32_t stage) {
  return late_weights(schedule, 2 * (schedule.stages - stage - 1), 2 * stage);
}

}  // namespace espalier
