// SPDX-License-Identifier: Apache-2.0
#include "planner/time_parts.h"

#include <algorithm>

namespace espalier::planner {

HostWork host_work_of(const Plan& plan) {
  const std::vector<StrategyCount> used = strategy_counts(plan);
  const auto offloads = [](const StrategyCount& s) { return offloads_optimizer(s.strategy.offload); };
  return std::any_of(used.begin(), used.end(), offloads) ? HostWork::update : HostWork::framework;
}

std::vector<TimePart> time_parts(const Breakdown& b, HostWork host) {
  return {{TimeKind::compute, "compute", b.compute_ns},
          {TimeKind::exposed_communication, "exposed communication", b.exposed_communication_ns},
          {TimeKind::bubble, "pipeline bubble", b.bubble_ns},
          {TimeKind::update, "optimizer update", b.optimizer_ns - b.step_host_ns},
          {TimeKind::host, host == HostWork::update ? "update on the host" : "host between steps", b.step_host_ns},
          {TimeKind::other, "other", b.other_ns}};
}

std::vector<TimePart> parts_by_size(const Breakdown& b, HostWork host) {
  std::vector<TimePart> parts = time_parts(b, host);
  std::stable_sort(parts.begin(), parts.end(), [](const TimePart& x, const TimePart& y) { return x.ns > y.ns; });
  return parts;
}

}  // namespace espalier::planner
