// SPDX-License-Identifier: Apache-2.0
// Finds the best paths between sites, and converts a Cluster's groups and sites to a graph.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "base/invariant.h"
#include "cluster/topology_builders.h"

namespace espalier::cluster {
namespace {

constexpr double kUnlimited = 1e15;  ///< bytes/s, if the interfaces of a group are unknown

/// Compares paths: latency, then links; less is better.
using Length = std::tuple<double, std::int64_t>;
constexpr Length kFar{std::numeric_limits<double>::infinity(), std::numeric_limits<std::int64_t>::max()};

using LinksInto = std::vector<std::vector<LinkId>>;  ///< by site

LinksInto links_into(const SiteGraph& graph) {
  LinksInto into(graph.names.size());
  for (std::size_t i = 0; i < graph.links.size(); ++i)
    into[static_cast<std::size_t>(graph.links[i].to)].push_back(static_cast<LinkId>(i));
  return into;
}

/// Runs Dijkstra's algorithm backwards from `target`.
std::vector<LinkId> ways_to(const SiteGraph& graph, const LinksInto& into, std::int64_t target) {
  std::vector<Length> length(graph.names.size(), kFar);
  std::vector<LinkId> next(graph.names.size(), -1);
  using Entry = std::pair<Length, std::int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  length[static_cast<std::size_t>(target)] = {0.0, 0};
  open.push({{0.0, 0}, target});
  while (!open.empty()) {
    const auto [reached, site] = open.top();
    open.pop();
    if (reached != length[static_cast<std::size_t>(site)]) continue;
    for (const LinkId id : into[static_cast<std::size_t>(site)]) {
      const SiteLink& link = graph.links[static_cast<std::size_t>(id)];
      const auto from = static_cast<std::size_t>(link.from);
      const Length through{std::get<0>(reached) + link.latency.count(), std::get<1>(reached) + 1};
      const bool tie = through == length[from] && from != static_cast<std::size_t>(target) && id < next[from];
      if (through < length[from]) open.push({through, link.from});
      if (through < length[from] || tie) next[from] = id;
      length[from] = std::min(length[from], through);
    }
  }
  if (!graph.direct_first) return next;
  const std::vector<LinkId>& direct = into[static_cast<std::size_t>(target)];
  for (std::size_t i = direct.size(); i-- > 0;)
    next[static_cast<std::size_t>(graph.links[static_cast<std::size_t>(direct[i])].from)] = direct[i];
  return next;
}

/// Adds routers for the sites that links name, and the paths of their groups to them.
void add_routers(const Cluster& cluster, SiteGraph& graph) {
  const auto groups = static_cast<std::int64_t>(cluster.groups.size());
  for (const std::string& site : cluster.sites()) {
    const bool named = std::any_of(cluster.links.begin(), cluster.links.end(),
                                   [&](const GroupLink& link) { return link.from == site || link.to == site; });
    if (!named) continue;
    graph.names.push_back(site);
    graph.nodes.push_back(0);
    for (std::int64_t g = 0; g < groups; ++g)
      if (cluster.groups[static_cast<std::size_t>(g)].site == site)
        graph.nodes.back() += cluster.groups[static_cast<std::size_t>(g)].nodes;
  }
}

void add_ways_to_routers(const Cluster& cluster, SiteGraph& graph) {
  for (std::size_t router = cluster.groups.size(); router < graph.names.size(); ++router)
    for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
      const NodeGroup& group = cluster.groups[g];
      if (group.site != graph.names[router]) continue;
      SiteLink way;
      way.from = static_cast<std::int64_t>(g);
      way.to = static_cast<std::int64_t>(router);
      way.bandwidth =
          group.node_bandwidth.count() > 0 ? group.node_bandwidth * static_cast<double>(group.nodes) : BytesPerSecond(kUnlimited);
      way.bandwidth = std::min(way.bandwidth, BytesPerSecond(kUnlimited));
      graph.links.push_back(way);
      std::swap(way.from, way.to);
      graph.links.push_back(way);
    }
}

}  // namespace

std::vector<LinkId> next_links(const SiteGraph& graph, std::int64_t target) { return ways_to(graph, links_into(graph), target); }

Status reach_each_other(const SiteGraph& graph, std::int64_t ends) {
  const LinksInto into = links_into(graph);
  for (std::int64_t target = 0; target < ends; ++target) {
    const std::vector<LinkId> next = ways_to(graph, into, target);
    for (std::int64_t from = 0; from < ends; ++from)
      if (from != target && next[static_cast<std::size_t>(from)] < 0)
        return Error{ErrorKind::bad_input, "links",
                     "no path from " + graph.names[static_cast<std::size_t>(from)] + " to " +
                         graph.names[static_cast<std::size_t>(target)],
                     "links that connect all devices in both directions", ""};
  }
  return {};
}

SiteGraph graph_of(const Cluster& cluster) {
  SiteGraph graph;
  graph.direct_first = true;
  for (const NodeGroup& group : cluster.groups) {
    graph.names.push_back(group.name);
    graph.nodes.push_back(group.nodes);
  }
  add_routers(cluster, graph);
  const auto place = [&](const std::string& name) {
    return std::find(graph.names.begin(), graph.names.end(), name) - graph.names.begin();
  };
  for (const GroupLink& link : cluster.links)
    graph.links.push_back({place(link.from), place(link.to), link.bandwidth, link.latency, {}, link.sharing});
  add_ways_to_routers(cluster, graph);
  return graph;
}

}  // namespace espalier::cluster

namespace espalier {

GroupPath Cluster::path(std::size_t from_group, std::size_t to_group) const {
  ESPALIER_CHECK(from_group < groups.size() && to_group < groups.size());
  const NodeGroup& from = groups[from_group];
  const NodeGroup& to = groups[to_group];
  const auto narrower = [](BytesPerSecond a, BytesPerSecond b) { return a.count() <= 0 || (b.count() > 0 && b < a) ? b : a; };
  GroupPath path;
  if (links.empty() || from_group == to_group) {
    const std::vector<FabricLevel>& own = !from.inter.empty() ? from.inter : from.intra;
    const std::vector<FabricLevel>& over = from_group != to_group || (homogeneous() && !inter.empty()) ? inter : own;
    if (over.empty()) return path;
    path.bandwidth = over.back().bandwidth_alone * over.back().efficiency;
    path.latency = over.back().latency;
    return path;
  }
  const cluster::SiteGraph graph = cluster::graph_of(*this);
  const std::vector<cluster::LinkId> next = cluster::next_links(graph, static_cast<std::int64_t>(to_group));
  path.bandwidth = narrower(from.node_bandwidth, to.node_bandwidth);
  for (std::size_t at = from_group; at != to_group;) {
    if (next[at] < 0) return GroupPath{};  // readers refuse such clusters; links lost later may leave one
    const auto link = static_cast<std::size_t>(next[at]);
    if (link < links.size()) path.links.push_back(link);
    path.bandwidth = narrower(path.bandwidth, graph.links[link].bandwidth);
    path.latency += graph.links[link].latency;
    at = static_cast<std::size_t>(graph.links[link].to);
  }
  return path;
}

}  // namespace espalier
