// SPDX-License-Identifier: Apache-2.0
// The parts of an iteration as people read them. Breakdown's `optimizer` is shown as two: the update, and the host's work between steps.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/simulate.h"

namespace espalier::planner {

enum class TimeKind : std::uint8_t { compute, exposed_communication, bubble, update, host, other };

struct TimePart {
  TimeKind kind;
  const char* name;
  std::int64_t ns;
};

/// In the order of TimeKind; they sum to the iteration.
std::vector<TimePart> time_parts(const Breakdown& b);
/// The same, largest first.
std::vector<TimePart> parts_by_size(const Breakdown& b);

}  // namespace espalier::planner
