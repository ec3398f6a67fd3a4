// SPDX-License-Identifier: Apache-2.0
#include "sim/memory_replay.h"

#include <cmath>

namespace espalier::sim {

MemoryStep memory_step(const Instruction& instruction, const cost::PlanTiming& timing) {
  if (instruction.stream != Stream::compute || instruction.kind == InstructionKind::optimizer) return {};
  const cost::ChunkTiming& chunk = timing.chunks[static_cast<std::size_t>(instruction.chunk)];
  const bool first = instruction.bucket == 0, last = instruction.bucket + 1 == instruction.buckets;
  switch (instruction.kind) {
    case InstructionKind::forward: return {first ? chunk.saved_bytes : 0, chunk.forward_transient_bytes, 0};
    case InstructionKind::backward: return {0, chunk.backward_transient_bytes, last ? -chunk.saved_bytes : 0};
    case InstructionKind::backward_input:
      return {0, chunk.backward_transient_bytes, last ? chunk.saved_after_input_bytes - chunk.saved_bytes : 0};
    default: return {0, 0, last ? -chunk.saved_after_input_bytes : 0};
  }
}

MemoryPeak replay_memory(const Program& program, const RankProgram& rank, const cost::PlanTiming& timing) {
  MemoryPeak peak;
  std::int64_t held = 0;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
    if (instruction.stream != Stream::compute) continue;
    const MemoryStep step = memory_step(instruction, timing);
    held += step.before;
    if (peak.instruction < 0 || held + step.during > peak.activations) {
      peak.activations = held + step.during;
      peak.instruction = i;
    }
    held += step.after;
  }
  const std::int64_t tensors = peak.activations + timing.stages[static_cast<std::size_t>(rank.stage)].memory.total();
  peak.bytes = static_cast<std::int64_t>(std::floor(static_cast<double>(tensors) * (1.0 + timing.allocator_reserve)));
  peak.reserve = peak.bytes - tensors;
  return peak;
}

}  // namespace espalier::sim
