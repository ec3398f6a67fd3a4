// SPDX-License-Identifier: Apache-2.0
// Links between sites and the table of routes over them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "cluster/topology_assembly.h"

namespace espalier::cluster {
namespace {

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
  return std::nullopt;
}

/// How good a way is: latency, then links; less is better.
using Length = std::tuple<double, std::int64_t>;
constexpr Length kFar{std::numeric_limits<double>::infinity(), std::numeric_limits<std::int64_t>::max()};

/// Dijkstra from `target` backwards: next[s] = the first link of the best way from s to the target, −1 where there is none.
void ways_to(const SiteGraph& graph, const std::vector<std::vector<LinkId>>& into, std::int64_t target,
             std::vector<LinkId>& next) {
  std::vector<Length> length(graph.names.size(), kFar);
  next.assign(graph.names.size(), -1);
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
  if (!graph.direct_first) return;
  const std::vector<LinkId>& direct = into[static_cast<std::size_t>(target)];
  for (std::size_t i = direct.size(); i-- > 0;)
    next[static_cast<std::size_t>(graph.links[static_cast<std::size_t>(direct[i])].from)] = direct[i];
}

}  // namespace

Status TopologyAssembly::add_sites(const SiteGraph& graph, std::int64_t ends) {
  ESPALIER_CHECK(made_.ranges_.empty());
  if (Status error = check_graph(graph, ends)) return error;
  made_.sites_ = static_cast<std::int64_t>(graph.names.size());
  std::vector<std::vector<LinkId>> into(graph.names.size());
  for (const SiteLink& link : graph.links) {
    LinkRange range;
    range.name = graph.names[static_cast<std::size_t>(link.from)] + "-" + graph.names[static_cast<std::size_t>(link.to)];
    range.capacity = link.bandwidth.count();
    range.latency_s = link.latency.count();
    range.trace = link.trace;
    into[static_cast<std::size_t>(link.to)].push_back(static_cast<LinkId>(made_.links_));
    made_.link_goes_.push_back(link.to);
    add_range(std::move(range));
  }
  const std::size_t sites = graph.names.size();
  made_.next_link_.assign(sites * sites, -1);
  std::vector<LinkId> next;
  for (std::size_t target = 0; target < sites; ++target) {
    ways_to(graph, into, static_cast<std::int64_t>(target), next);
    for (std::size_t from = 0; from < sites; ++from) made_.next_link_[from * sites + target] = next[from];
    for (std::size_t from = 0; from < static_cast<std::size_t>(ends) && target < static_cast<std::size_t>(ends); ++from)
      if (from != target && next[from] < 0)
        return bad_graph("links", "no way from " + graph.names[from] + " to " + graph.names[target],
                         "links that join all devices in both directions");
  }
  return std::nullopt;
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
  if (Status error = assembly.add_sites(graph, devices)) return *error;
  assembly.add_single_devices(devices, 0);
  return std::move(assembly).finish();
}

Result<Topology> joined_topology(const Cluster& cluster, const SiteGraph& graph) {
  TopologyAssembly assembly;
  if (Status error = assembly.add_sites(graph, static_cast<std::int64_t>(cluster.groups.size()))) return *error;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    const NodeGroup& group = cluster.groups[g];
    std::vector<FabricLevel> levels = group.intra;
    levels.insert(levels.end(), group.inter.begin(), group.inter.end());
    if (cluster.homogeneous()) levels.insert(levels.end(), cluster.inter.begin(), cluster.inter.end());
    assembly.add_run(group.nodes * group.devices_per_node, std::move(levels), static_cast<std::int64_t>(g), false);
  }
  return std::move(assembly).finish();
}

}  // namespace espalier::cluster
