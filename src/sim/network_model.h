// SPDX-License-Identifier: Apache-2.0
// Defines the network model, which determines message times: it runs the program and gives every instruction its
// start and end. There are two:
//     Engine         closed form: every message takes its time in Costs, whatever else is in flight. The search uses
//                    it.
//     FlowExecutor   flow-level: all messages in flight share the links of the cluster.
// Everything else of a simulation (breakdown, memory) is derived from those times in the same way for both.
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

  /// Times the whole program. Returns false if not everything ends: a deadlock, or a permanently dead link.
  virtual bool run(const Program& program, const cost::Costs& costs, bool record) = 0;
  [[nodiscard]] virtual std::int64_t iteration_ns() const = 0;
  [[nodiscard]] virtual std::int64_t rank_end(std::size_t rank) const = 0;
  /// Hold times by absolute instruction index. Starts are present only after a run with `record`.
  [[nodiscard]] virtual const std::vector<std::int64_t>& starts() const = 0;
  [[nodiscard]] virtual const std::vector<std::int64_t>& ends() const = 0;
  /// Returns, after a run that did not end, the first instruction of `rank` that never started, or −1.
  [[nodiscard]] virtual std::int32_t blocked(std::size_t rank) const = 0;
};

}  // namespace espalier::sim
