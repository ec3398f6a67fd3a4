// SPDX-License-Identifier: Apache-2.0
#include "search/cluster_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "search/budgets.h"
#include "search/work_bound.h"

namespace espalier::search {
namespace {

/// Numbers the devices of unequal speed as in the part. Requires whole groups where there are some.
void add_speeds(const Cluster& whole, const NodeSet& nodes, Cluster& part) {
  for (std::size_t g = 0; g < nodes.size(); ++g)
    for (DeviceSpeed speed : whole.groups[nodes[g].group].speed) {
      speed.device += part.first_device(g) - whole.first_device(nodes[g].group);
      part.groups[g].speed.push_back(speed);
    }
}

/// Returns the nodes as a cluster with the links between their groups.
Cluster with_links(const Cluster& whole, const NodeSet& nodes) {
  Cluster out = cluster_of(whole, nodes);
  add_speeds(whole, nodes, out);
  const auto ends_at = [&](const std::string& name) {
    return std::any_of(out.groups.begin(), out.groups.end(),
                       [&](const NodeGroup& group) { return group.name == name || group.site == name; });
  };
  for (const GroupLink& link : whole.links)
    if (ends_at(link.from) && ends_at(link.to)) out.links.push_back(link);
  return out;
}

/// Returns whether messages between the groups take the same links as in the whole cluster.
bool keeps_paths(const Cluster& whole, const ClusterPart& part) {
  if (whole.links.empty()) return true;
  if (part.cluster.links.empty()) return false;
  for (const GroupPart& a : part.nodes)
    for (const GroupPart& b : part.nodes) {
      if (a.group == b.group) continue;
      for (const std::size_t link : whole.path(a.group, b.group).links)
        if (!part.cluster.link_called(whole.links[link].name())) return false;
    }
  return true;
}

/// Returns the parts with these nodes whose bound of all work is below `incumbent_ns`, by that bound.
std::vector<ClusterPart> worth_it(const Problem& problem, const std::vector<NodeSet>& sets, std::int64_t incumbent_ns) {
  std::vector<std::pair<std::int64_t, ClusterPart>> found;
  for (const NodeSet& nodes : sets) {
    ClusterPart part{nodes, with_links(*problem.cluster, nodes)};
    if (!keeps_paths(*problem.cluster, part)) continue;
    Problem own = problem;
    own.cluster = &part.cluster;
    const std::int64_t bound = work_bound_ns(own);
    if (bound < incumbent_ns) found.emplace_back(bound, std::move(part));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ClusterPart> out;
  for (auto& [bound, part] : found) out.push_back(std::move(part));
  return out;
}

}  // namespace

std::vector<ClusterPart> fewer_groups(const Problem& problem, std::int64_t incumbent_ns) {
  const std::vector<NodeGroup>& groups = problem.cluster->groups;
  if (groups.size() < 3 || groups.size() > kMostPipelineGroups || problem.space.devices == DeviceChoice::all) return {};
  std::vector<NodeSet> sets;
  for (std::uint32_t mask = 1; mask + 1 < 1U << groups.size(); ++mask) {
    NodeSet nodes;
    for (std::size_t g = 0; g < groups.size(); ++g)
      if ((mask >> g & 1U) != 0) nodes.push_back({g, groups[g].nodes});
    if (nodes.size() > 1) sets.push_back(std::move(nodes));
  }
  std::vector<ClusterPart> out = worth_it(problem, sets, incumbent_ns);
  if (out.size() > kMostFewerGroups) out.erase(out.begin() + static_cast<std::ptrdiff_t>(kMostFewerGroups.value), out.end());
  return out;
}

NodeParts node_parts(const Problem& problem, std::int64_t incumbent_ns) {
  const Cluster& cluster = *problem.cluster;
  NodeParts out;
  if (cluster.has_speeds()) return out;
  const NodeSets sets = node_sets(problem, WorkBound(problem), 2, incumbent_ns);
  out.rest_bound_ns = sets.unlisted_bound_ns;
  const auto whole = [&](const GroupPart& part) { return part.nodes == cluster.groups[part.group].nodes; };
  for (std::size_t n = 0; n < sets.sets.size(); ++n) {
    if (std::all_of(sets.sets[n].begin(), sets.sets[n].end(), whole)) continue;
    ClusterPart part{sets.sets[n], with_links(cluster, sets.sets[n])};
    const bool listed = out.parts.size() < kMostNodeParts && keeps_paths(cluster, part);
    std::int64_t& bound_ns = listed ? out.listed_bound_ns : out.rest_bound_ns;
    bound_ns = std::min(bound_ns, sets.bound_ns[n]);
    if (listed) out.parts.push_back(std::move(part));
  }
  return out;
}

}  // namespace espalier::search
