// SPDX-License-Identifier: Apache-2.0
// A fingerprint of everything that decides an iteration time: two candidates with equal prints take equally long, so
// that only one of them is simulated. 128 bits of the structure (it decides the program) and of the durations that the
// simulator reads; bytes, parameters and hidden parts are left out. With a million different candidates two of them
// share a print with probability 10⁻²⁶.
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
