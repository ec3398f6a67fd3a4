// SPDX-License-Identifier: Apache-2.0
#include "adapt/settle.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/invariant.h"
#include "solve/assignment.h"

namespace espalier::adapt {
namespace {

/// Identifies nodes that are alike: group, domain, speeds of its devices, factors on its path to the network.
using Traits = std::tuple<std::size_t, std::int64_t, std::vector<double>, std::vector<double>>;

Traits traits_of(const Cluster& whole, const ClusterState& state, std::int64_t node) {
  const std::size_t g = whole.group_of_node(node);
  const NodeGroup& group = whole.groups[g];
  const std::int64_t first = whole.first_device_of_node(node);
  Traits out{g, 0, std::vector<double>(static_cast<std::size_t>(group.devices_per_node), 1.0), {}};
  const std::vector<FabricLevel>& between = whole.homogeneous() ? whole.inter : group.inter;
  if (between.size() > 1) std::get<1>(out) = (first - whole.first_device(g)) / between.front().span;
  std::vector<double>& speeds = std::get<2>(out);
  for (std::size_t k = 0; k < speeds.size(); ++k) speeds[k] = whole.speed_of(first + static_cast<std::int64_t>(k));
  for (const Slowdown& slow : state.slow)
    if (whole.node_of(slow.device) == node) speeds[static_cast<std::size_t>(slow.device - first)] /= slow.factor;
  for (const CapacityFactor& c : state.capacity) {
    const auto target = target_called(whole, c.target, "cluster");
    ESPALIER_CHECK(target.ok());
    const bool here = (target->kind == ClusterTarget::Kind::node && target->index == node) ||
                      (target->kind == ClusterTarget::Kind::device && whole.node_of(target->index) == node);
    if (here) std::get<3>(out).push_back(c.factor);
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> node_classes(const Cluster& whole, const ClusterState& state, const std::vector<std::int64_t>& nodes) {
  std::map<Traits, std::int64_t> known;
  std::vector<std::int64_t> out;
  for (const std::int64_t node : nodes) {
    const auto next = static_cast<std::int64_t>(known.size());
    out.push_back(known.try_emplace(traits_of(whole, state, node), next).first->second);
  }
  return out;
}

Result<std::vector<std::int64_t>> settled(const MoveScene& scene, const Placed& from, const Plan& plan, const Present& present,
                                          const std::vector<std::int64_t>& spare) {
  const Cluster& whole = *scene.cluster;
  std::vector<std::int64_t> nodes = present.node_of, devices;
  nodes.insert(nodes.end(), spare.begin(), spare.end());
  std::vector<std::size_t> first;  // first index of each node in `devices`
  for (const std::int64_t node : nodes) {
    first.push_back(devices.size());
    for (std::int64_t k = 0; k < whole.groups[whole.group_of_node(node)].devices_per_node; ++k)
      devices.push_back(whole.first_device_of_node(node) + k);
  }
  const auto kept = kept_bytes(scene, from, plan, devices);
  if (!kept) return kept.error();
  const std::vector<std::int64_t> classes = node_classes(whole, scene.state, nodes);
  std::vector<std::int64_t> out = present.node_of;
  for (const std::int64_t name : std::set<std::int64_t>(classes.begin(), classes.end())) {
    std::vector<std::size_t> members;
    for (std::size_t n = 0; n < classes.size(); ++n)
      if (classes[n] == name) members.push_back(n);
    if (members.size() < 2 || members.size() > kMostAssigned) continue;
    // Rows are places (spare nodes have none); columns are nodes.
    std::vector<std::vector<std::int64_t>> costs(members.size(), std::vector<std::int64_t>(members.size()));
    const auto count = static_cast<std::size_t>(whole.groups[whole.group_of_node(nodes[members.front()])].devices_per_node);
    for (std::size_t a = 0; a < members.size(); ++a)
      for (std::size_t b = 0; b < members.size() && members[a] < out.size(); ++b)
        for (std::size_t k = 0; k < count; ++k) costs[a][b] -= (*kept)[first[members[a]] + k][first[members[b]] + k];
    const std::vector<std::size_t> columns = solve::assignment(costs);
    for (std::size_t a = 0; a < members.size(); ++a)
      if (members[a] < out.size()) out[members[a]] = nodes[members[columns[a]]];
  }
  return out;
}

}  // namespace espalier::adapt
