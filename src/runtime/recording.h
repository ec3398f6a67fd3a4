// SPDX-License-Identifier: Apache-2.0
// Writes a run's times and memory to the file of `espalier run --record` (schema espalier.operator-times/1).
#pragma once

#include <cstdint>
#include <string>

#include "espalier/result.h"
#include "runtime/communicator.h"
#include "runtime/counted_memory.h"
#include "runtime/operator_clock.h"

namespace espalier::runtime {

struct Recording {
  const OperatorClock& clock;
  const CountedMemory* memory = nullptr;  ///< null: no peaks
  std::int64_t steps = 1;                 ///< steps that were counted
  double step_s = 0;                      ///< mean seconds of these steps
};

/// Writes, on rank 0, its times and the peaks of all ranks. Every rank of `world` calls this. Null means one rank.
Status write_recording(const std::string& path, const Recording& recording, Communicator* world);

}  // namespace espalier::runtime
