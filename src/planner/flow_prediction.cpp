// SPDX-License-Identifier: Apache-2.0
// A plan under the flow-level network: its program once more, with everything in flight sharing the links of the cluster's topology.
#include <algorithm>

#include "cluster/topology_builders.h"
#include "cost/price.h"
#include "espalier/planner.h"
#include "planner/prediction.h"
#include "sim/flow_executor.h"
#include "sim/program_traffic.h"
#include "sim/simulator.h"
#include "sim/topology_network.h"

namespace espalier {
namespace {

/// Links of one name together, those without traffic left out.
std::vector<LinkUse> uses_of_links(const cluster::Topology& topology, const sim::FlowNetwork& network,
                                   std::int64_t iteration_ns) {
  std::vector<LinkUse> uses;
  for (const cluster::LinkRange& range : topology.ranges()) {
    LinkUse use;
    use.link = range.name;
    use.links = range.count;
    std::int64_t busiest_ns = 0;
    for (std::int64_t i = 0; i < range.count; ++i) {
      const sim::LinkUtilisation link = network.utilisation(static_cast<cluster::LinkId>(range.first + i));
      use.bytes += link.bytes;
      busiest_ns = std::max(busiest_ns, link.busy_ns);
      use.highest_load = std::max(use.highest_load, link.highest_share);
    }
    use.busy = static_cast<double>(busiest_ns) / static_cast<double>(std::max<std::int64_t>(1, iteration_ns));
    if (use.bytes > 0) uses.push_back(use);
  }
  return uses;
}

}  // namespace

Result<NetworkPrediction> simulate_flow(const Job& job, const Plan& plan) {
  if (job.cluster.devices() > kMostFlowDevices)
    return Error{ErrorKind::bad_input, "--network flow", std::to_string(job.cluster.devices()) + " devices",
                 "at most " + std::to_string(kMostFlowDevices), "the closed form (--network closed) has no limit"};
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  const auto timed = time_plan(job, **engine, plan, false);
  if (!timed) return timed.error();
  cost::CostContext context(job.model, job.cluster, job.training, **engine);
  context.place(plan);
  const cluster::Topology topology = cluster::nested_topology(job.cluster);
  sim::FlowExecutor flow(sim::flow_network(topology), sim::traffic_of(context, plan, timed->program, timed->costs, topology));
  sim::SimulationOptions options;
  options.network = &flow;
  sim::Simulator simulator;
  const auto simulation = simulator.run(timed->program, timed->costs, options);
  if (!simulation) return simulation.error();
  NetworkPrediction out;
  out.iteration_ns = simulation->iteration_ns;
  out.closed_iteration_ns = timed->simulation.iteration_ns;
  out.breakdown = simulation->ranks[static_cast<std::size_t>(simulation->last_rank)].breakdown;
  out.links = uses_of_links(topology, flow.network(), out.iteration_ns);
  return out;
}

}  // namespace espalier
