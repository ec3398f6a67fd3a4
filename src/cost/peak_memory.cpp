// SPDX-License-Identifier: Apache-2.0
#include "cost/peak_memory.h"

#include <algorithm>

#include "cost/bound.h"
#include "plan/schedule.h"

namespace espalier::cost {

std::int64_t PeakMemory::activations(const PlanTiming& timing, const Schedule& schedule, std::int32_t stage) {
  chunks_.clear();
  for (std::int32_t k = 0; k < schedule.virtual_stages; ++k) {
    const ChunkTiming& t = timing.chunks[static_cast<std::size_t>(pipeline_chunk(schedule, stage, k))];
    chunks_.push_back({t.saved_bytes, t.saved_after_input_bytes, t.forward_transient_bytes, t.backward_transient_bytes});
  }
  return held_.peak_bytes(schedule, stage, chunks_);
}

std::int64_t PeakMemory::stage_bytes(const PlanTiming& timing, const Schedule& schedule, std::int32_t stage) {
  const std::int64_t fixed = timing.stages[static_cast<std::size_t>(stage)].memory.total();
  return peak_bytes(fixed, activations(timing, schedule, stage), timing.allocator_reserve);
}

std::int64_t PeakMemory::fullest_bytes(const PlanTiming& timing, const Schedule& schedule) {
  std::int64_t most = 0;
  for (std::int32_t i = 0; i < schedule.stages; ++i) most = std::max(most, stage_bytes(timing, schedule, i));
  return most;
}

}  // namespace espalier::cost
