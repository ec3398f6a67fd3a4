// SPDX-License-Identifier: Apache-2.0
#include "search/node_sets.h"

#include <algorithm>

#include "base/invariant.h"
#include "search/budgets.h"

namespace espalier::search {
namespace {

/// Returns the devices of a plan's stage, run by run.
std::vector<DeviceRange> ranges_of(const std::vector<DeviceRange>& stage, const std::vector<std::int64_t>& devices) {
  std::vector<DeviceRange> out;
  for (const DeviceRange& range : stage)
    for (std::int64_t k = 0; k < range.count; ++k) {
      const std::int64_t device = devices[static_cast<std::size_t>(range.first + k * range.stride)];
      if (!out.empty() && out.back().first + out.back().count == device)
        ++out.back().count;
      else
        out.push_back({device, 1, 1});
    }
  return out;
}

/// Returns the numbers of nodes that a set may have of a group: all of them where these are few, else the largest and
/// the powers of two.
std::vector<std::int64_t> node_counts(std::int64_t nodes, bool every) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= nodes; ++n)
    if (every || n == nodes || n + 1 == nodes || (n & (n - 1)) == 0) out.push_back(n);
  return out;
}

std::vector<double> capacity_of(const Cluster& cluster, const WorkBound& work, const NodeSet& nodes) {
  std::vector<double> out(cluster.groups.size(), 0.0);
  for (const GroupPart& part : nodes) out[part.group] = work.capacity(part.group, part.nodes);
  return out;
}

bool equal_but_for_name(NodeGroup a, const NodeGroup& b) {
  a.name = b.name;
  return a == b;
}

/// Returns whether two groups are interchangeable in a set: they are equal, and so are their paths to all others.
bool interchangeable(const Cluster& cluster, std::size_t a, std::size_t b) {
  return cluster.links.empty() && equal_but_for_name(cluster.groups[a], cluster.groups[b]);
}

}  // namespace

Cluster cluster_of(const Cluster& cluster, const NodeSet& nodes) {
  Cluster out = cluster;
  out.groups.clear();
  out.links.clear();
  for (const GroupPart& part : nodes) {
    out.groups.push_back(cluster.groups[part.group]);
    out.groups.back().nodes = part.nodes;
    out.groups.back().speed.clear();
  }
  return out;
}

std::vector<std::int64_t> devices_of(const Cluster& cluster, const NodeSet& nodes) {
  std::vector<std::int64_t> out;
  for (const GroupPart& part : nodes) {
    const std::int64_t first = cluster.first_device(part.group);
    for (std::int64_t d = 0; d < part.nodes * cluster.groups[part.group].devices_per_node; ++d) out.push_back(first + d);
  }
  return out;
}

std::int64_t device_count(const Cluster& cluster, const NodeSet& nodes) {
  std::int64_t sum = 0;
  for (const GroupPart& part : nodes) sum += part.nodes * cluster.groups[part.group].devices_per_node;
  return sum;
}

NodeSet all_nodes(const Cluster& cluster) {
  NodeSet out;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) out.push_back({g, cluster.groups[g].nodes});
  return out;
}

std::vector<Pipeline> on_devices(std::vector<Pipeline> pipelines, const std::vector<std::int64_t>& devices) {
  for (Pipeline& pipeline : pipelines)
    for (Stage& stage : pipeline.stages) stage.devices = ranges_of(stage.devices, devices);
  return pipelines;
}

NodeSets node_sets(const Problem& problem, const WorkBound& work, std::size_t least_groups, std::int64_t incumbent_ns) {
  const Cluster& cluster = *problem.cluster;
  NodeSets out;
  std::vector<std::pair<std::int64_t, NodeSet>> found;
  const auto offer = [&](const NodeSet& nodes) {
    if (nodes.size() < least_groups) return;
    const std::int64_t bound = work.ns(capacity_of(cluster, work, nodes), problem.training.global_batch);
    if (bound < incumbent_ns) found.emplace_back(bound, nodes);
  };
  const NodeSet whole = all_nodes(cluster);
  double sets = 1;
  for (const NodeGroup& group : cluster.groups) sets *= static_cast<double>(group.nodes + 1);
  offer(whole);
  if (problem.space.devices == DeviceChoice::all) {
    for (auto& [bound, nodes] : found) {
      out.sets.push_back(nodes);
      out.bound_ns.push_back(bound);
    }
    return out;
  }
  const bool every = sets <= static_cast<double>(kMostNodeSets);
  NodeSet chosen;
  std::size_t visited = 0;
  const auto extend = [&](const auto& self, std::size_t g) -> void {
    if (visited > kMostNodeSets) return;
    if (g == cluster.groups.size()) {
      ++visited;
      if (chosen != whole) offer(chosen);
      return;
    }
    const NodeGroup& group = cluster.groups[g];
    std::vector<std::int64_t> counts = node_counts(group.nodes, every);
    std::reverse(counts.begin(), counts.end());
    // Among equal groups the first ones are taken, with more nodes in the earlier ones.
    std::int64_t most = group.nodes;
    for (std::size_t before = 0; before < g; ++before) {
      if (!interchangeable(cluster, before, g)) continue;
      const auto at = std::find_if(chosen.begin(), chosen.end(), [&](const GroupPart& part) { return part.group == before; });
      most = std::min(most, at == chosen.end() ? 0 : at->nodes);
    }
    for (const std::int64_t n : counts) {
      if (n > most) continue;
      chosen.push_back({g, n});
      self(self, g + 1);
      chosen.pop_back();
    }
    self(self, g + 1);
  };
  extend(extend, 0);
  // A set that is not listed has no more devices of any group than the whole cluster.
  if (!every || visited > kMostNodeSets)
    out.unlisted_bound_ns = work.ns(capacity_of(cluster, work, whole), problem.training.global_batch);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return std::lexicographical_compare(
        a.second.begin(), a.second.end(), b.second.begin(), b.second.end(),
        [](const GroupPart& x, const GroupPart& y) { return std::pair(x.group, x.nodes) < std::pair(y.group, y.nodes); });
  });
  for (auto& [bound, nodes] : found) {
    out.sets.push_back(std::move(nodes));
    out.bound_ns.push_back(bound);
  }
  return out;
}

GroupOrders orders_of(const Cluster& cluster, const NodeSet& nodes) {
  // Equal parts form one class; orders are those of the classes.
  std::vector<std::size_t> classes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::size_t own = i;
    for (std::size_t j = 0; j < i && own == i; ++j)
      if (nodes[j].nodes == nodes[i].nodes && interchangeable(cluster, nodes[j].group, nodes[i].group)) own = classes[j];
    classes.push_back(own);
  }
  GroupOrders out;
  out.orders.push_back(nodes);
  std::vector<std::size_t> order = classes;
  std::sort(order.begin(), order.end());
  do {
    if (order == classes) continue;
    if (out.orders.size() == kMostOrders) {
      out.all = false;
      break;
    }
    std::vector<char> taken(nodes.size(), 0);
    out.orders.emplace_back();
    for (const std::size_t wanted : order) {
      std::size_t at = 0;
      while (taken[at] != 0 || classes[at] != wanted) ++at;
      taken[at] = 1;
      out.orders.back().push_back(nodes[at]);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return out;
}

}  // namespace espalier::search
