// SPDX-License-Identifier: Apache-2.0
// The parts of an iteration as people read them. Breakdown's `optimizer` is shown as two: the update, and the host's
// work between steps.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"
#include "espalier/simulate.h"

namespace espalier::planner {

enum class TimeKind : std::uint8_t { compute, exposed_communication, bubble, update, host, other };

struct TimePart {
  TimeKind kind;
  const char* name;
  std::int64_t ns;
};

/// What the host's work once a step is for its most part: the framework's own, or the update of an optimizer that is
/// offloaded.
enum class HostWork : std::uint8_t { framework, update };
HostWork host_work_of(const Plan& plan);

/// In the order of TimeKind; they sum to the iteration.
std::vector<TimePart> time_parts(const Breakdown& b, HostWork host = HostWork::framework);
/// The same, largest first.
std::vector<TimePart> parts_by_size(const Breakdown& b, HostWork host = HostWork::framework);

}  // namespace espalier::planner
