// SPDX-License-Identifier: Apache-2.0
// What a program's messages take: a network model runs the program and gives every instruction its start and end. Two
// of them exist:
//     Engine         closed form: every message takes what Costs say, whatever else is under way. The search uses it.
//     FlowExecutor   flow-level: all messages under way share the links of the cluster.
// Everything else of a simulation (breakdown, memory) is read off those times in the same way for both.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "plan/program.h"

namespace espalier::sim {

class NetworkModel {
 public:
  NetworkModel() = default;
  NetworkModel(const NetworkModel&) = default;
  NetworkModel(NetworkModel&&) = default;
  NetworkModel& operator=(const NetworkModel&) = default;
  NetworkModel& operator=(NetworkModel&&) = default;
  virtual ~NetworkModel() = default;

  /// Times the whole program. False where not everything ends: a deadlock, or a link that is dead for good.
  virtual bool run(const Program& program, const cost::Costs& costs, bool record) = 0;
  [[nodiscard]] virtual std::int64_t iteration_ns() const = 0;
  [[nodiscard]] virtual std::int64_t rank_end(std::size_t rank) const = 0;
  /// By absolute instruction index; starts are there only after a run with `record`.
  [[nodiscard]] virtual const std::vector<std::int64_t>& starts() const = 0;
  [[nodiscard]] virtual const std::vector<std::int64_t>& ends() const = 0;
  /// After a run that did not end: the first instruction of `rank` that never started, or −1.
  [[nodiscard]] virtual std::int32_t blocked(std::size_t rank) const = 0;
};

}  // namespace espalier::sim
