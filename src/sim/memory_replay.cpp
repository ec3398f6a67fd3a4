// SPDX-License-Identifier: Apache-2.0
#include "sim/memory_replay.h"

#include <cmath>

namespace espalier::sim {

cost::MemoryStep memory_step(const Instruction& instruction, const cost::Costs& costs) {
  if (instruction.stream != Stream::compute) return {};
  cost::MemoryStep step = costs.works[instruction.work()].memory;
  if (instruction.bucket > 0) step.before = Bytes();
  if (instruction.bucket + 1 < instruction.buckets) step.after = Bytes();
  return step;
}

MemoryPeak replay_memory(const Program& program, const RankClass& rank, const cost::Costs& costs) {
  MemoryPeak peak;
  std::int64_t held = 0;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
    if (instruction.stream != Stream::compute) continue;
    const cost::MemoryStep step = memory_step(instruction, costs);
    held += step.before.count();
    if (peak.instruction < 0 || held + step.during.count() > peak.activations) {
      peak.activations = held + step.during.count();
      peak.instruction = i;
    }
    held += step.after.count();
  }
  const std::int64_t tensors = peak.activations + costs.stages[program.stage_row(rank)].memory.total();
  peak.bytes = static_cast<std::int64_t>(std::floor(static_cast<double>(tensors) * (1.0 + costs.allocator_reserve)));
  peak.reserve = peak.bytes - tensors;
  return peak;
}

}  // namespace espalier::sim
