// SPDX-License-Identifier: Apache-2.0
// Adds links between sites and the table of routes over them.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/invariant.h"
#include "cluster/topology_assembly.h"

namespace espalier::cluster {
namespace {

constexpr std::int64_t kMaxLinksOfAWay = 100'000'000;
constexpr std::int64_t kMaxTopologyLinks = 1'000'000'000;

Error bad_graph(std::string where, std::string found, std::string expected) {
  return Error{ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected), ""};
}

Status check_graph(const SiteGraph& graph, std::int64_t ends) {
  const auto sites = static_cast<std::int64_t>(graph.names.size());
  if (graph.names.size() > kMaxSites)
    return bad_graph("sites", std::to_string(sites) + " sites", "at most " + std::to_string(kMaxSites));
  if (ends < 1 || ends > sites) return bad_graph("sites", std::to_string(sites) + " sites", "a site for each device or group");
  for (std::size_t i = 0; i < graph.links.size(); ++i) {
    const SiteLink& link = graph.links[i];
    const std::string where = "links[" + std::to_string(i) + "]";
    if (link.from < 0 || link.from >= sites || link.to < 0 || link.to >= sites)
      return bad_graph(where, std::to_string(link.from) + " to " + std::to_string(link.to),
                       "sites 0 to " + std::to_string(sites - 1));
    if (link.from == link.to) return bad_graph(where, "from and to are the same", "two sites");
    if (!std::isfinite(link.bandwidth.count()) || link.bandwidth.count() < 0)
      return bad_graph(where + ".bandwidth", std::to_string(link.bandwidth.count()), "0 or more bytes/s");
    if (!std::isfinite(link.latency.count()) || link.latency.count() < 0)
      return bad_graph(where + ".latency", std::to_string(link.latency.count()), "0 or more seconds");
  }
  return {};
}

}  // namespace

/// Adds a way between sites: one link, one for each node at either end, or one for each pair of them.
Status TopologyAssembly::add_way(const SiteGraph& graph, const SiteLink& link) {
  Topology::Way way;
  way.first = static_cast<LinkId>(made_.links_);
  way.sharing = link.sharing;
  way.from = link.from;
  way.to = link.to;
  if (!graph.nodes.empty()) {
    way.from_nodes = graph.nodes[static_cast<std::size_t>(link.from)];
    way.to_nodes = graph.nodes[static_cast<std::size_t>(link.to)];
  }
  LinkRange range;
  range.name = graph.names[static_cast<std::size_t>(link.from)] + "-" + graph.names[static_cast<std::size_t>(link.to)];
  range.capacity = link.bandwidth.count();
  range.latency_s = link.latency.count();
  range.trace = link.trace;
  const std::int64_t most =
      link.sharing == LinkSharing::node_pair ? way.from_nodes * way.to_nodes : way.from_nodes + way.to_nodes;
  if (most > kMaxLinksOfAWay || made_.links_ + most > kMaxTopologyLinks)
    return bad_graph("links", std::to_string(most) + " links between the nodes of " + range.name,
                     "at most " + std::to_string(kMaxTopologyLinks) + " in all");
  if (link.sharing == LinkSharing::node_pair) {
    range.names = LinkRange::Names::node_pairs;
    range.count = most;
    range.columns = way.to_nodes;
  } else if (link.sharing == LinkSharing::node) {
    LinkRange in = range;
    in.names = LinkRange::Names::nodes_to;
    in.count = way.to_nodes;
    in.latency_s = 0.0;  // counted once, at the outgoing end
    range.names = LinkRange::Names::nodes_from;
    range.count = way.from_nodes;
    add_range(std::move(range));
    range = std::move(in);
  }
  add_range(std::move(range));
  made_.ways_.push_back(way);
  return {};
}

Status TopologyAssembly::add_sites(const SiteGraph& graph, std::int64_t ends) {
  ESPALIER_CHECK(made_.ranges_.empty());
  if (Status status = check_graph(graph, ends); !status.ok()) return status;
  made_.sites_ = static_cast<std::int64_t>(graph.names.size());
  for (const SiteLink& link : graph.links)
    if (Status status = add_way(graph, link); !status.ok()) return status;
  const std::size_t sites = graph.names.size();
  made_.next_link_.assign(sites * sites, -1);
  for (std::size_t target = 0; target < sites; ++target) {
    const std::vector<LinkId> next = next_links(graph, static_cast<std::int64_t>(target));
    for (std::size_t from = 0; from < sites; ++from) made_.next_link_[from * sites + target] = next[from];
  }
  if (Status status = reach_each_other(graph, ends); !status.ok()) return status;
  return {};
}

void TopologyAssembly::add_single_devices(std::int64_t count, std::int64_t site) {
  Topology::Run run;
  run.first = made_.devices_;
  run.count = count;
  run.site = site;
  run.site_step = 1;
  made_.devices_ += count;
  made_.runs_.push_back(std::move(run));
}

SiteGraph graph_of(const SiteMatrix& matrix) {
  const std::size_t sites = matrix.names.size();
  ESPALIER_CHECK(matrix.bandwidth.size() == sites * sites && matrix.latency.size() == sites * sites);
  SiteGraph graph;
  graph.names = matrix.names;
  graph.direct_first = true;
  for (std::size_t from = 0; from < sites; ++from)
    for (std::size_t to = 0; to < sites; ++to) {
      const std::size_t entry = from * sites + to;
      if (from == to || matrix.bandwidth[entry].count() == 0.0) continue;
      graph.links.push_back(
          {static_cast<std::int64_t>(from), static_cast<std::int64_t>(to), matrix.bandwidth[entry], matrix.latency[entry], {}});
    }
  return graph;
}

Result<Topology> listed_topology(const SiteGraph& graph, std::int64_t devices) {
  TopologyAssembly assembly;
  if (Status status = assembly.add_sites(graph, devices); !status.ok()) return status.error();
  assembly.add_single_devices(devices, 0);
  return std::move(assembly).finish();
}

FabricLevel network_of_one_node(const NodeGroup& group) {
  FabricLevel level;
  level.name = "network";
  level.kind = FabricKind::fat_tree;
  level.span = group.nodes * group.devices_per_node;
  level.efficiency = 1.0;
  level.bandwidth = group.node_bandwidth / static_cast<double>(group.devices_per_node);
  level.bandwidth_alone = group.node_bandwidth;
  return level;
}

Result<Topology> joined_topology(const Cluster& cluster, const SiteGraph& graph) {
  TopologyAssembly assembly;
  if (Status status = assembly.add_sites(graph, static_cast<std::int64_t>(cluster.groups.size())); !status.ok())
    return status.error();
  std::map<std::string, std::int64_t> nodes_at_site;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    const NodeGroup& group = cluster.groups[g];
    std::vector<FabricLevel> levels = group.intra;
    levels.insert(levels.end(), group.inter.begin(), group.inter.end());
    if (cluster.homogeneous()) levels.insert(levels.end(), cluster.inter.begin(), cluster.inter.end());
    const bool one_node = group.inter.empty() && !cluster.homogeneous() && group.node_bandwidth.count() > 0;
    if (one_node) levels.push_back(network_of_one_node(group));
    assembly.add_run(group.nodes * group.devices_per_node, std::move(levels), static_cast<std::int64_t>(g),
                     one_node ? group.devices_per_node : 0);
    assembly.count_nodes(group.devices_per_node, nodes_at_site[group.site]);
    nodes_at_site[group.site] += group.nodes;
  }
  assembly.add_changes(cluster);
  return std::move(assembly).finish();
}

Result<Topology> topology_of(const Cluster& cluster) {
  if (cluster.links.empty()) return nested_topology(cluster);
  return joined_topology(cluster, graph_of(cluster));
}

}  // namespace espalier::cluster
