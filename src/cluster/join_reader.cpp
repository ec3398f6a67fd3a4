// SPDX-License-Identifier: Apache-2.0
#include "cluster/join_reader.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "cluster/link_reader.h"
#include "cluster/topology_builders.h"
#include "cluster/traits_reader.h"

namespace espalier::cluster {
namespace {

constexpr double kDearestGigabyte = 1e6;

/// Lowers `level` to each figure in which `network` is worse, bandwidth aside. A network with a larger bandwidth may
/// have the longer latency. A join that took all figures of one network would then be slower after that network
/// became faster.
void lower_to(const NetworkSpec& network, FabricLevel& level) {
  level.bandwidth_alone = std::min(level.bandwidth_alone, network.bandwidth);
  level.latency = std::max(level.latency, network.latency);
  level.efficiency = std::min(level.efficiency, network.efficiency);
  level.start = std::max(level.start, network.shape.start);
  level.ramp = std::max(level.ramp, network.shape.ramp);
  level.small_group = std::max(level.small_group, network.shape.small_group);
  level.congestion = std::max(level.congestion, network.shape.congestion);
  level.in_network_reduction = level.in_network_reduction && network.in_network_reduction;
}

/// Reads the level that joins unlike groups: the smallest share per device, and the worst of their networks in all
/// other figures.
FabricLevel read_inter_group(base::Reader& reader, const std::vector<GroupDraft>& drafts, std::vector<std::string>& notes) {
  std::vector<NetworkSpec> networks;
  NetworkSpec slowest;
  double least = 0;
  std::int64_t total = 0;
  for (const GroupDraft& draft : drafts) total += draft.devices();
  const bool given = reader.has("inter_group");
  base::Reader child = reader.child("inter_group", false);
  for (const GroupDraft& draft : drafts) {
    NetworkSpec network = draft.network;
    if (given) {
      network.nics = 1;
      network.kind = FabricKind::fat_tree;
      network.name = "inter-group";
    }
    if (given) read_network(child, network, "nics_per_node");
    networks.push_back(network);
    const double share = network.bandwidth.count() * static_cast<double>(network.nics) /
                         static_cast<double>(draft.group.devices_per_node) / network.oversubscription;
    if (least == 0 || share < least) {
      least = share;
      slowest = network;
    }
  }
  if (given)
    child.finish();
  else
    notes.push_back(reader.path() + ".inter_group = the slowest of the groups' networks (default)");
  if (least <= 0 && reader.sink().ok())
    reader.fail("inter_group", "nothing", "inter_group: {bandwidth: …}, since a group has no usual network");
  FabricLevel level = slowest.shape;
  level.name = slowest.name.empty() ? "inter-group" : slowest.name;
  level.kind = slowest.kind;
  level.span = total;
  level.bandwidth = BytesPerSecond(least);
  level.bandwidth_alone = slowest.bandwidth;
  level.latency = slowest.latency;
  level.efficiency = slowest.efficiency;
  level.in_network_reduction = slowest.in_network_reduction;
  level.trace = slowest.trace;
  for (const NetworkSpec& network : networks) lower_to(network, level);
  level.bandwidth_alone = std::max(level.bandwidth, level.bandwidth_alone);
  return level;
}

/// Returns the level that the closed form may assume between any two groups: the slowest link, shared by all devices
/// of the larger end.
FabricLevel level_of_links(const Cluster& cluster) {
  FabricLevel level;
  level.name = "links between groups";
  level.kind = FabricKind::fat_tree;
  level.span = cluster.devices();
  level.efficiency = 1.0;
  std::int64_t most = 1;
  std::int64_t node = 1;
  for (const NodeGroup& group : cluster.groups) {
    most = std::max(most, group.nodes * group.devices_per_node);
    node = std::max(node, group.devices_per_node);
  }
  for (const GroupLink& link : cluster.links) {
    const bool line = link.sharing == LinkSharing::line;
    const BytesPerSecond share = link.bandwidth / static_cast<double>(line ? most : node);
    if (level.bandwidth.count() == 0 || share < level.bandwidth) level.bandwidth = share;
    if (level.bandwidth_alone.count() == 0 || link.bandwidth < level.bandwidth_alone) level.bandwidth_alone = link.bandwidth;
    level.latency = std::max(level.latency, link.latency);
  }
  return level;
}

/// Checks that all groups reach each other.
void check_ways(base::Reader& reader, std::string_view key, const Cluster& cluster) {
  const SiteGraph graph = graph_of(cluster);
  if (Status status = reach_each_other(graph, static_cast<std::int64_t>(cluster.groups.size())); !status.ok())
    reader.fail(key, status.error().found, "links that connect every group to every other",
                "both: true adds the opposite direction of a link");
}

}  // namespace

void read_joints(base::Reader& reader, const ClusterFiles& files, const std::vector<GroupDraft>& drafts, Cluster& cluster) {
  std::string_view given;
  for (std::string_view key : {"inter_group", "links", "matrix"}) {
    if (!reader.has(key)) continue;
    if (!given.empty()) reader.fail(key, cat(given, " and ", key), "one of inter_group, links and matrix");
    given = key;
  }
  if (given == "links") read_links(reader, cluster);
  if (given == "matrix") read_matrix(reader, files, cluster);
  if (given.empty() && !all_nics_meet(cluster)) link_by_nics(reader, cluster);
  if (!reader.sink().ok()) return;
  if (given == "inter_group" || (given.empty() && cluster.links.empty())) {
    cluster.inter.push_back(read_inter_group(reader, drafts, cluster.notes));
    return;
  }
  check_ways(reader, given.empty() ? "links" : given, cluster);
  if (reader.sink().ok()) cluster.inter.push_back(level_of_links(cluster));
}

void refuse_joints(base::Reader& reader) {
  for (std::string_view key : {"inter_group", "links", "matrix"})
    if (reader.has(key)) reader.fail(key, cat(key, " with one group"), "inter_node inside the group");
}

void read_prices(base::Reader& reader, Cluster& cluster) {
  cluster.currency = reader.optional_string("currency", cluster.currency);
  if (cluster.currency.empty() || cluster.currency.size() > 16)
    reader.fail("currency", "", "a word for the currency of all prices, e.g. USD");
  if (!reader.has("egress_price_per_GB")) return;
  base::Reader prices = reader.child("egress_price_per_GB", false);
  if (!prices.sink().ok()) return;
  const std::vector<std::string> names = names_of_ends(cluster);
  for (const auto& [key, value] : prices.node().members) {
    const auto ends = pair_of(key, names);
    const double price = prices.optional_real(key, 0.0, kDearestGigabyte, 0.0);
    if (!ends || ends->first == ends->second) {
      prices.fail(key, base::in_quotes(key), "two different groups or sites as in a-b, of: " + base::listed(names));
      return;
    }
    cluster.egress.push_back({ends->first, ends->second, price});
  }
}

}  // namespace espalier::cluster
