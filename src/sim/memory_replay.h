// SPDX-License-Identifier: Apache-2.0
// Replays memory along the compute stream of a rank, in program order. No times are needed.
//
//   forward          + saved when it starts; forward_transient while it runs
//   backward         backward_transient while it runs; − saved when it ends
//   backward_input   backward_transient while it runs; − (saved − saved_after_input) when it ends
//   backward_weight  − saved_after_input when it ends.
// A chunk cut into buckets saves with its first bucket and frees with its last. Static bytes are held throughout. The
// peak counts tensors, and the allocator reserve is added at the end: peak = ⌊tensors · (1 + reserve)⌋.
#pragma once

#include <cstdint>

#include "cost/costs.h"
#include "espalier/simulate.h"
#include "plan/program.h"

namespace espalier::sim {

/// Returns the peak of one rank; `at_ns` is left 0.
MemoryPeak replay_memory(const Program& program, const RankClass& rank, const cost::Costs& costs);

/// Returns the memory changes of a compute instruction; a bucket of a chunk has a part of them.
cost::MemoryStep memory_step(const Instruction& instruction, const cost::Costs& costs);

}  // namespace espalier::sim
