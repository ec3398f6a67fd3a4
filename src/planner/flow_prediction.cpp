// SPDX-License-Identifier: Apache-2.0
#include "planner/flow_prediction.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "cluster/topology_builders.h"
#include "cost/price.h"
#include "cost/rank_contexts.h"
#include "sim/flow_executor.h"
#include "sim/program_traffic.h"
#include "sim/topology_network.h"

namespace espalier::planner {
namespace {

/// Merges links of the same name; links without traffic are omitted.
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

/// Returns an executor of the program with its traffic on the links of the topology.
sim::FlowExecutor executor_of(const cluster::Topology& topology, const cost::RankContexts& contexts, const Plan& plan,
                              const Program& program, const cost::Costs& costs) {
  return {sim::flow_network(topology), sim::traffic_of(contexts, plan, program, costs, topology)};
}

Result<FlowSimulation> simulate_over(const cluster::Topology& topology, const cost::RankContexts& contexts, const Plan& plan,
                                     const Program& program, const cost::Costs& costs, bool spans) {
  sim::FlowExecutor flow = executor_of(topology, contexts, plan, program, costs);
  sim::SimulationOptions options;
  options.record_spans = spans;
  options.network = &flow;
  sim::Simulator simulator;
  auto simulation = simulator.run(program, costs, options);
  if (!simulation) return simulation.error();
  std::vector<LinkUse> links = uses_of_links(topology, flow.network(), simulation->iteration_ns);
  return FlowSimulation{std::move(*simulation), std::move(links)};
}

}  // namespace

Result<FlowSimulation> simulate_flow(const cost::ClusterCosts& costs_of, const Plan& plan, const Program& program,
                                     const cost::Costs& costs, bool spans) {
  const auto topology = cluster::topology_of(costs_of.cluster());
  if (!topology) return topology.error();
  return simulate_over(*topology, cost::rank_contexts(costs_of, plan, program), plan, program, costs, spans);
}

}  // namespace espalier::planner
