// SPDX-License-Identifier: Apache-2.0
// Puts a Topology together: site links first, then the links of each run of equal nodes. For the builders only.
#pragma once

#include "cluster/topology.h"
#include "cluster/topology_builders.h"

namespace espalier::cluster {

class TopologyAssembly {
 public:
  /// Links between sites and the table of routes; the first `ends` sites must all reach each other. Before any run.
  Status add_sites(const SiteGraph& graph, std::int64_t ends);
  /// The next devices, all in sites: `count` of them, the first in `site`.
  void add_single_devices(std::int64_t count, std::int64_t site);
  /// The next `count` devices with nested levels. `joined`: the last level joins this run, of nodes of so many devices,
  /// with others, and each node has its own share of it; 0: none does.
  void add_run(std::int64_t count, std::vector<FabricLevel> levels, std::int64_t site, std::int64_t joined);
  /// Of the run added last: how its nodes are counted at the ends of ways that are not one line.
  void count_nodes(std::int64_t devices_per_node, std::int64_t first_at_router);
  /// Capacities over time and token buckets of the cluster, on the links that their targets mean. After all runs.
  void add_changes(const Cluster& cluster);
  [[nodiscard]] Topology finish() &&;

 private:
  Status add_way(const SiteGraph& graph, const SiteLink& link);
  [[nodiscard]] std::vector<LinkId> links_of(const Cluster& cluster, const std::string& target) const;
  std::int32_t add_range(LinkRange range);
  std::int32_t add_both_ways(LinkRange range, const std::string& name);
  void add_medium(Topology::Run& run, const std::vector<FabricLevel>& levels, std::size_t lowest, std::size_t after, bool joined);
  void add_trunk(Topology::Run& run, const FabricLevel& level, std::size_t k, double capacity, double latency_s);
  void add_pairs(Topology::Run& run, const FabricLevel& level, std::size_t k);

  Topology made_;
};

/// What a group of one node without levels between nodes leaves it by: the interfaces of the node, which its devices
/// share.
FabricLevel network_of_one_node(const NodeGroup& group);

}  // namespace espalier::cluster
