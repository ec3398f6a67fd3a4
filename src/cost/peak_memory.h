// SPDX-License-Identifier: Apache-2.0
// The peak of each stage, exactly and without a program. It equals that of sim/memory_replay.h, and is computed from
// the passes that a schedule holds.
//
//     peak_i = ⌊(static_i + held_i) · (1 + reserve)⌋        held_i: plan/held_passes.h
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "plan/held_passes.h"

namespace espalier::cost {

/// Remembers the schedules that it has met. Each thread has one of its own.
class PeakMemory {
 public:
  /// Returns the activations of `stage` at its fullest moment.
  std::int64_t activations(const Costs& costs, const ProgramStructure& structure, std::int32_t stage);
  /// Returns the peak of `stage`, allocator reserve included.
  std::int64_t stage_bytes(const Costs& costs, const ProgramStructure& structure, std::int32_t stage);
  /// Returns the peak of the fullest stage.
  std::int64_t fullest_bytes(const Costs& costs, const ProgramStructure& structure);

 private:
  HeldPasses held_;
  std::vector<PassBytes> chunks_;
};

}  // namespace espalier::cost
