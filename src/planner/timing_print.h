// SPDX-License-Identifier: Apache-2.0
// Computes a fingerprint of everything that decides an iteration time. Two candidates with equal prints take equally
// long, so only one of them is simulated. The 128 bits cover the structure (it decides the program) and the durations
// that the simulator reads. Bytes, parameters and hidden parts are left out. Among a million different candidates,
// two share a print with probability 10⁻²⁶.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cost/costs.h"
#include "plan/program.h"

namespace espalier::planner {

struct TimingPrint {
  std::uint64_t low = 0, high = 0;
  bool operator==(const TimingPrint&) const = default;
};
struct TimingPrintHash {
  std::size_t operator()(const TimingPrint& print) const { return print.low; }
};

TimingPrint print_of(const ProgramStructure& structure, const cost::Costs& costs);

}  // namespace espalier::planner
