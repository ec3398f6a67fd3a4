// SPDX-License-Identifier: Apache-2.0
// Implements interleaved 1F1B (Narayanan et al. 2021, the order of Megatron-LM). Stage i holds chunks i, p+i, 2p+i, …
// It passes p micro-batches through its first chunk, then the same p through its second, and so on; backwards from
// the last chunk. The warm-up has 2(p−i−1) + (v−1)p chunk passes. The idle time is (p−1)(F+B+W)/v if m mod p = 0,
// with F, B, W of a whole stage.
//
// If p does not divide m, the remaining r = m mod p micro-batches join the last group of p, and the warm-up grows
// by (v−1)r passes. A smaller group would need an input before the previous stage can have made it. With m < p
// there is one group.
#include <algorithm>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier {
namespace {

/// Returns chunk passes in the order in which they run forwards; backwards the chunks run in reverse inside each group.
std::vector<ChunkPass> passes(const Schedule& schedule, InstructionKind kind) {
  const std::int32_t p = schedule.stages, m = schedule.microbatches, v = schedule.virtual_stages;
  std::vector<ChunkPass> order;
  order.reserve(static_cast<std::size_t>(m) * static_cast<std::size_t>(v));
  for (std::int32_t first = 0; first < m;) {
    const std::int32_t rest = m - first;
    const std::int32_t group = rest < 2 * p ? rest : p;
    for (std::int32_t k = 0; k < v; ++k) {
      const auto chunk = static_cast<std::int16_t>(kind == InstructionKind::forward ? k : v - 1 - k);
      for (std::int32_t j = first; j < first + group; ++j) order.push_back({kind, chunk, j});
    }
    first += group;
  }
  return order;
}

}  // namespace

std::vector<ChunkPass> interleaved_order(const Schedule& schedule, std::int32_t stage) {
  const std::int64_t p = schedule.stages, m = schedule.microbatches, v = schedule.virtual_stages;
  const std::vector<ChunkPass> forwards = passes(schedule, InstructionKind::forward);
  const std::vector<ChunkPass> backwards = passes(schedule, InstructionKind::backward);
  const std::int64_t largest_group = m < p ? p : p + m % p;
  const std::size_t warm_up = std::min(forwards.size(), static_cast<std::size_t>(2 * (p - stage - 1) + (v - 1) * largest_group));
  std::vector<ChunkPass> order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  order.reserve(forwards.size() + backwards.size());
  for (std::size_t k = 0; k < backwards.size(); ++k) {
    if (warm_up + k < forwards.size()) order.push_back(forwards[warm_up + k]);
    order.push_back(backwards[k]);
  }
  return order;
}

}  // namespace espalier
