// SPDX-License-Identifier: Apache-2.0
#include "cost/peak_memory.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/bound.h"
#include "plan/schedule.h"

namespace espalier::cost {

std::int64_t PeakMemory::activations(const Costs& costs, const ProgramStructure& structure, std::int32_t stage) {
  ESPALIER_CHECK(costs.fits(structure) && stage >= 0 && stage < structure.schedule.stages);
  chunks_.clear();
  for (std::int32_t k = 0; k < structure.schedule.virtual_stages; ++k) {
    chunks_.push_back(costs.bytes_of(structure, ChunkId(pipeline_chunk(structure.schedule, stage, k))));
  }
  return held_.peak_bytes(structure.schedule, stage, chunks_);
}

std::int64_t PeakMemory::stage_bytes(const Costs& costs, const ProgramStructure& structure, std::int32_t stage) {
  const std::int64_t fixed = costs.stages[StageId(stage)].memory.total();
  return peak_bytes(fixed, activations(costs, structure, stage), costs.allocator_reserve);
}

std::int64_t PeakMemory::fullest_bytes(const Costs& costs, const ProgramStructure& structure) {
  std::int64_t most = 0;
  for (std::int32_t i = 0; i < structure.schedule.stages; ++i) most = std::max(most, stage_bytes(costs, structure, i));
  return most;
}

}  // namespace espalier::cost
