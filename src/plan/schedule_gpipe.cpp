// SPDX-License-Identifier: Apache-2.0
// Implements GPipe (Huang et al. 2019): all forwards, then all backwards, both in the order of the micro-batches. Every
// stage waits (p−1)F for its first input and (p−1)(B+W) for the gradients to come back, so it is idle for (p−1)(F+B+W).
#include "plan/schedule.h"

#include "base/invariant.h"

namespace espalier {

std::vector<ChunkPass> gpipe_order(const Schedule& schedule, std::int32_t /*stage*/) {
  ESPALIER_CHECK(schedule.virtual_stages == 1);
  std::vector<ChunkPass> order;
  order.reserve(2 * static_cast<std::size_t>(schedule.microbatches));
  for (std::int32_t j = 0; j < schedule.microbatches; ++j) order.push_back({InstructionKind::forward, 0, j});
  for (std::int32_t j = 0; j < schedule.microbatches; ++j) order.push_back({InstructionKind::backward, 0, j});
  return order;
}

}  // namespace espalier
