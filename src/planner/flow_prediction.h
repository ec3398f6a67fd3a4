// SPDX-License-Identifier: Apache-2.0
// A priced program under the flow-level network: everything in flight shares the links of the cluster's topology
// (docs/network.md).
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
  std::vector<LinkUse> links;  ///< in the order of the topology; those without traffic are left out
};
/// `program` folded, of `plan`, priced by `costs_of`. Error: not everything ends.
Result<FlowSimulation> simulate_flow(const cost::ClusterCosts& costs_of, const Plan& plan, const Program& program,
                                     const cost::Costs& costs, bool spans);

}  // namespace espalier::planner
