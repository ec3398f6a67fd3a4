// SPDX-License-Identifier: Apache-2.0
// Splits an iteration into the parts that people read. Breakdown's `optimizer` is shown as two parts: the update, and
// the host's work between steps.
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

/// Names the main part of the host's work once per step: the framework's own, or the update of an offloaded optimizer.
enum class HostWork : std::uint8_t { framework, update };
HostWork host_work_of(const Plan& plan);

/// Returns the parts in the order of TimeKind; they sum to the iteration.
std::vector<TimePart> time_parts(const Breakdown& b, HostWork host = HostWork::framework);
/// Returns the same parts, largest first.
std::vector<TimePart> parts_by_size(const Breakdown& b, HostWork host = HostWork::framework);

}  // namespace espalier::planner
