// SPDX-License-Identifier: Apache-2.0
// Assembles a Topology: site links first, then the links of each run of equal nodes. For the builders only.
#pragma once

#include "cluster/topology.h"
#include "cluster/topology_builders.h"

namespace espalier::cluster {

class TopologyAssembly {
 public:
  /// Adds links between sites and the table of routes. The first `ends` sites must all reach each other. Must precede
  /// all runs.
  Status add_sites(const SiteGraph& graph, std::int64_t ends);
  /// Adds the next devices, all in sites: `count` of them, the first in `site`.
  void add_single_devices(std::int64_t count, std::int64_t site);
  /// Adds the next `count` devices with nested levels. If `joined` is not 0, the last level joins this run with
  /// others. Its nodes then have `joined` devices, and each has its own share of the level.
  void add_run(std::int64_t count, std::vector<FabricLevel> levels, std::int64_t site, std::int64_t joined);
  /// Sets how nodes of the run added last are counted at the ends of ways that are not one line.
  void count_nodes(std::int64_t devices_per_node, std::int64_t first_at_router);
  /// Adds capacities over time and token buckets of the cluster to the links that their targets mean. Must follow all
  /// runs.
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

/// Returns the network by which traffic leaves a group of one node without levels between nodes: the interfaces of
/// the node, shared by its devices.
FabricLevel network_of_one_node(const NodeGroup& group);

}  // namespace espalier::cluster
