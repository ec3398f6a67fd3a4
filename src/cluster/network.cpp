// SPDX-License-Identifier: Apache-2.0
// Implements levels between nodes: NICs shared by the devices of a node, pods, oversubscription.
#include "cluster/network.h"
#include "base/division.h"

#include <algorithm>

namespace espalier::cluster {
namespace {

std::string level_name(const NetworkSpec& network, std::string_view suffix) {
  std::string name = network.name;
  if (name.empty()) {
    if (network.kind == FabricKind::rail_optimized)
      name = "rails";
    else if (network.kind == FabricKind::fat_tree)
      name = "fat tree";
    else
      name = to_string(network.kind);
  }
  return name + std::string(suffix);
}

}  // namespace

std::vector<FabricLevel> network_levels(const NetworkSpec& network, std::int64_t nodes, std::int64_t devices_per_node,
                                        std::int64_t below) {
  const std::int64_t total = nodes * devices_per_node;
  if (total <= below) return {};
  FabricLevel level = network.shape;
  level.kind = network.kind;
  level.bandwidth = network.bandwidth * static_cast<double>(network.nics) / static_cast<double>(devices_per_node);
  level.bandwidth_alone = std::max(level.bandwidth, network.bandwidth);
  level.latency = network.latency;
  level.efficiency = network.efficiency;
  level.in_network_reduction = network.in_network_reduction;
  level.trace = network.trace;
  std::vector<FabricLevel> levels;
  if (network.oversubscription > 1.0 && network.pod_nodes > 0) {
    level.name = level_name(network, " (pod)");
    level.span = round_up(std::min(network.pod_nodes, nodes) * devices_per_node, below);
    if (level.span > below) levels.push_back(level);
    if (level.span >= total) return levels;
    below = level.span;
  }
  level.bandwidth = level.bandwidth / network.oversubscription;
  level.name = level_name(network, levels.empty() ? "" : " (spine)");
  level.span = round_up(total, below);
  levels.push_back(level);
  return levels;
}

}  // namespace espalier::cluster
