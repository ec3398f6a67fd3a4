// SPDX-License-Identifier: Apache-2.0
// Simulates a priced program under the flow-level network, in which all traffic in flight shares the links of the
// cluster's topology (docs/network.md).
#pragma once

#include <cstdint>

#include "cost/cluster_costs.h"
#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "espalier/planner.h"
#include "plan/program.h"
#include "sim/simulator.h"

namespace espalier::planner {

struct FlowSimulation {
  Simulation simulation;
  std::vector<LinkUse> links;  ///< in the order of the topology; links without traffic are omitted
};
/// Simulates `program`, the folded program of `plan`, with the prices of `costs_of`. Returns an error if the program
/// does not end.
Result<FlowSimulation> simulate_flow(const cost::ClusterCosts& costs_of, const Plan& plan, const Program& program,
                                     const cost::Costs& costs, bool spans);

}  // namespace espalier::planner
