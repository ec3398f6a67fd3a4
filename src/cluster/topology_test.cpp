// SPDX-License-Identifier: Apache-2.0
// Tests topologies: routes by hand, and the bandwidth that nested levels promise.
#include "cluster/topology.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "cluster/catalogue.h"
#include "cluster/topology_builders.h"

namespace espalier::cluster {
namespace {

FabricLevel level(std::string name, FabricKind kind, std::int64_t span, double gb, double alone_gb = 0.0) {
  FabricLevel made;
  made.name = std::move(name);
  made.kind = kind;
  made.span = span;
  made.bandwidth = GBps(gb);
  made.bandwidth_alone = GBps(alone_gb > 0 ? alone_gb : gb);
  made.latency = microseconds(2);
  made.efficiency = 0.8;
  return made;
}

Cluster cluster_of(std::int64_t nodes, std::int64_t devices_per_node, std::vector<FabricLevel> intra,
                   std::vector<FabricLevel> inter) {
  Cluster made;
  NodeGroup group;
  group.nodes = nodes;
  group.devices_per_node = devices_per_node;
  group.intra = std::move(intra);
  made.groups.push_back(group);
  made.inter = std::move(inter);
  return made;
}

std::vector<std::string> names(const Topology& topology, std::int64_t a, std::int64_t b) {
  std::vector<std::string> found;
  for (const LinkId link : topology.route(a, b)) found.push_back(topology.link_name(link));
  return found;
}

using Names = std::vector<std::string>;

// There are two nodes of four devices, with a NIC for each device. 4·2 ports of NVLink and 4·2 NICs for each node
// give 32 links of 100 GB/s · 0.8 and 10 GB/s · 0.8.
TEST(Topology, TwoNodesWithANicForEachDevice) {
  const Topology topology = nested_topology(
      cluster_of(2, 4, {level("NVSwitch", FabricKind::nvswitch, 4, 100)}, {level("rails", FabricKind::rail_optimized, 8, 10)}));
  EXPECT_EQ(topology.devices(), 8);
  EXPECT_EQ(topology.links(), 32);
  EXPECT_EQ(names(topology, 1, 2), (Names{"rank:1 NVSwitch out", "rank:2 NVSwitch in"}));
  EXPECT_EQ(names(topology, 1, 6), (Names{"rank:1 rails out", "rank:6 rails in"}));
  EXPECT_TRUE(topology.route(3, 3).empty());
  EXPECT_DOUBLE_EQ(route_bandwidth(topology, 1, 2), 80e9);
  EXPECT_DOUBLE_EQ(route_bandwidth(topology, 1, 6), 8e9);
  EXPECT_DOUBLE_EQ(route_latency(topology, 1, 6), 2e-6);
}

TEST(Topology, ANetworkDomainIsWhatTheNetworkJoins) {
  const Topology nodes = nested_topology(
      cluster_of(2, 4, {level("NVSwitch", FabricKind::nvswitch, 4, 100)}, {level("rails", FabricKind::rail_optimized, 8, 10)}));
  EXPECT_EQ(nodes.network_domain(3), 0);
  EXPECT_EQ(nodes.network_domain(6), 4);
  const Topology racks = nested_topology(
      cluster_of(8, 2, {level("tray", FabricKind::nvl72, 2, 100)},
                 {level("NVL72", FabricKind::nvl72, 8, 100), level("rails", FabricKind::rail_optimized, 16, 10)}));
  EXPECT_EQ(racks.network_domain(7), 0);
  EXPECT_EQ(racks.network_domain(9), 8);
  const Topology alone = nested_topology(cluster_of(1, 4, {level("NVSwitch", FabricKind::nvswitch, 4, 100)}, {}));
  EXPECT_EQ(alone.network_domain(3), 0);
}

// Four devices have two NICs of 20 GB/s: 10 GB/s each when all send, 20 alone. One port of 20·0.8 serves two devices.
TEST(Topology, NicsThatDevicesShareAreOnePort) {
  const Topology topology = nested_topology(
      cluster_of(2, 4, {level("PCIe", FabricKind::pcie_tree, 4, 30)}, {level("fat tree", FabricKind::fat_tree, 8, 10, 20)}));
  EXPECT_EQ(names(topology, 2, 5), (Names{"rank:2-3 fat tree out", "rank:4-5 fat tree in"}));
  EXPECT_EQ(topology.route(2, 5), topology.route(3, 4));
  EXPECT_DOUBLE_EQ(route_bandwidth(topology, 2, 5), 16e9);
}

// Four devices have three NICs of 20 GB/s: 15 GB/s each when all send. 20/15 devices cannot share a port, so the
// node's trunk has 4·15·0.8.
TEST(Topology, NicsThatDoNotDivideTheNodeArePooled) {
  const Topology topology = nested_topology(
      cluster_of(2, 4, {level("PCIe", FabricKind::pcie_tree, 4, 30)}, {level("fat tree", FabricKind::fat_tree, 8, 15, 20)}));
  EXPECT_EQ(names(topology, 0, 7),
            (Names{"rank:0 fat tree out", "rank:0-3 fat tree trunk out", "rank:4-7 fat tree trunk in", "rank:7 fat tree in"}));
  EXPECT_DOUBLE_EQ(topology.range_of(topology.route(0, 7)[0]).capacity, 16e9);
  EXPECT_DOUBLE_EQ(topology.range_of(topology.route(0, 7)[1]).capacity, 48e9);
}

// Pods have two nodes of two devices; NICs have 10 GB/s, and a quarter of it above the pods: 4·2.5·0.8 for a pod of
// four devices.
TEST(Topology, OversubscribedPodsShareATrunk) {
  const Topology topology =
      nested_topology(cluster_of(4, 2, {level("NVSwitch", FabricKind::nvswitch, 2, 100)},
                                 {level("pod", FabricKind::fat_tree, 4, 10), level("spine", FabricKind::fat_tree, 8, 2.5, 10)}));
  EXPECT_EQ(names(topology, 0, 3), (Names{"rank:0 pod out", "rank:3 pod in"}));
  EXPECT_EQ(names(topology, 1, 6),
            (Names{"rank:1 pod out", "rank:0-3 spine trunk out", "rank:4-7 spine trunk in", "rank:6 pod in"}));
  EXPECT_DOUBLE_EQ(topology.range_of(topology.route(1, 6)[1]).capacity, 8e9);
}

// Direct links of 50 GB/s join four devices whose ports have 100 GB/s.
TEST(Topology, AMeshHasALinkForEachPair) {
  FabricLevel mesh = level("mesh", FabricKind::nvlink_mesh, 4, 100);
  mesh.per_peer = GBps(50);
  const Topology topology = nested_topology(cluster_of(2, 4, {mesh}, {level("rails", FabricKind::rail_optimized, 8, 10)}));
  EXPECT_EQ(names(topology, 7, 5), (Names{"rank:7 mesh out", "rank:7-rank:5", "rank:5 mesh in"}));
  EXPECT_EQ(names(topology, 0, 3), (Names{"rank:0 mesh out", "rank:0-rank:3", "rank:3 mesh in"}));
  EXPECT_DOUBLE_EQ(route_bandwidth(topology, 7, 5), 40e9);
  EXPECT_NE(topology.route(0, 3)[1], topology.route(3, 0)[1]);
}

// Two devices below a PCIe switch share a socket link of 30 GB/s; their own PCIe ports are also on the path.
TEST(Topology, LevelsOfOneMediumShareThePort) {
  const Topology topology = nested_topology(cluster_of(
      1, 4, {level("PCIe switch", FabricKind::pcie_tree, 2, 30), level("socket", FabricKind::pcie_tree, 4, 15, 30)}, {}));
  EXPECT_EQ(names(topology, 0, 3),
            (Names{"rank:0 PCIe switch out", "rank:0-1 socket trunk out", "rank:2-3 socket trunk in", "rank:3 PCIe switch in"}));
  EXPECT_DOUBLE_EQ(topology.range_of(topology.route(0, 3)[1]).capacity, 24e9);
}

// A higher level is slower to cross: 2 µs at the ports and another 6 µs at the trunks make the level's 8 µs.
TEST(Topology, LatencyOfALevelIsThatOfTheRoute) {
  FabricLevel spine = level("spine", FabricKind::fat_tree, 8, 10);
  spine.latency = microseconds(8);
  const Topology topology = nested_topology(
      cluster_of(4, 2, {level("NVSwitch", FabricKind::nvswitch, 2, 100)}, {level("pod", FabricKind::fat_tree, 4, 10), spine}));
  EXPECT_DOUBLE_EQ(route_latency(topology, 0, 2), 2e-6);
  EXPECT_DOUBLE_EQ(route_latency(topology, 0, 7), 8e-6);
}

TEST(Topology, TracesBelongToTheLinksOfTheirLevel) {
  FabricLevel rails = level("rails", FabricKind::rail_optimized, 4, 10);
  rails.trace = {{Seconds(1), 0.5, 1.0}};
  const Topology topology = nested_topology(cluster_of(2, 2, {level("NVSwitch", FabricKind::nvswitch, 2, 100)}, {rails}));
  EXPECT_TRUE(topology.range_of(topology.route(0, 1)[0]).trace.empty());
  EXPECT_EQ(topology.range_of(topology.route(0, 2)[0]).trace, rails.trace);
}

// Checks the assumption of the closed form: at level k every device moves β_k·η_k while all the others do the same.
void expect_promised_bandwidth(const Cluster& cluster, const std::string& label) {
  const Topology topology = nested_topology(cluster);
  const std::vector<FabricLevel> levels = cluster.levels();
  std::int64_t below = 1;
  for (const FabricLevel& level : levels) {
    const double per_device =
        level.efficiency * (level.per_peer.count() > 0 ? std::min(level.bandwidth, level.per_peer) : level.bandwidth).count();
    std::map<LinkId, double> load;
    for (std::int64_t d = 0; d < topology.devices(); ++d) {
      const std::int64_t domain = d / level.span * level.span;
      const std::int64_t peer = domain + (d - domain + below) % level.span;
      if (peer >= topology.devices() || peer / below == d / below) continue;
      for (const LinkId link : topology.route(d, peer)) load[link] += per_device;
      EXPECT_GE(route_bandwidth(topology, d, peer), per_device * (1 - 1e-9)) << label << ", " << level.name;
    }
    for (const auto& [link, sum] : load)
      EXPECT_LE(sum, topology.range_of(link).capacity * (1 + 1e-9)) << label << ", " << topology.link_name(link);
    below = level.span;
  }
}

TEST(Topology, EveryDeviceOfTheCatalogueHasTheBandwidthOfItsLevels) {
  std::size_t pods_tried = 0;
  for (const DeviceKind& device : device_catalogue()) {
    const std::string text = "{nodes: 12, devices_per_node: 4, device: " + device.name + "}";
    const Result<Cluster> cluster = load_cluster(text, "test");
    if (cluster.ok()) expect_promised_bandwidth(*cluster, device.name);
    const Result<Cluster> pods = load_cluster(
        "{nodes: 8, device: " + device.name +
            ", devices_per_node: 8, inter_node: {kind: fat_tree, nics_per_node: 4, bandwidth: 400Gb/s, latency: 5us, "
            "oversubscription: 4, pod_nodes: 2}}",
        "test");
    if (pods.ok()) expect_promised_bandwidth(*pods, device.name + " in pods");
    pods_tried += pods.ok() && pods->levels().size() >= 3;
  }
  EXPECT_GE(pods_tried, 10u);
}

// All 8 devices send over the level: shared ports are exactly full.
TEST(Topology, SharedPortsAreFullWhenAllTalk) {
  const Cluster cluster =
      cluster_of(2, 4, {level("PCIe", FabricKind::pcie_tree, 4, 30)}, {level("fat tree", FabricKind::fat_tree, 8, 10, 20)});
  const Topology topology = nested_topology(cluster);
  std::map<LinkId, double> load;
  for (std::int64_t d = 0; d < 8; ++d)
    for (const LinkId link : topology.route(d, (d + 4) % 8)) load[link] += 8e9;
  EXPECT_EQ(load.size(), 8u);
  for (const auto& [link, sum] : load) EXPECT_DOUBLE_EQ(sum, topology.range_of(link).capacity);
}

TEST(Topology, GroupsOfAMixedClusterMeetAboveTheirNetworks) {
  Cluster cluster;
  NodeGroup fast;
  fast.nodes = 2;
  fast.devices_per_node = 2;
  fast.intra = {level("NVSwitch", FabricKind::nvswitch, 2, 100)};
  fast.inter = {level("rails", FabricKind::rail_optimized, 4, 20)};
  NodeGroup slow;
  slow.nodes = 1;
  slow.devices_per_node = 3;
  slow.intra = {level("PCIe", FabricKind::pcie_tree, 3, 10)};
  cluster.groups = {fast, slow};
  cluster.inter = {level("between", FabricKind::fat_tree, 7, 5)};
  const Topology topology = nested_topology(cluster);
  EXPECT_EQ(topology.devices(), 7);
  EXPECT_EQ(names(topology, 0, 3), (Names{"rank:0 rails out", "rank:3 rails in"}));
  EXPECT_EQ(names(topology, 4, 6), (Names{"rank:4 PCIe out", "rank:6 PCIe in"}));
  EXPECT_EQ(names(topology, 1, 5), (Names{"rank:1 rails out", "rank:0-1 between trunk out", "rank:5 between in"}));
  EXPECT_DOUBLE_EQ(topology.range_of(topology.route(1, 5)[1]).capacity,
                   2 * 5e9 * 0.8);  // each node has its own path to other groups
}

// The topology is a list of ranges and arithmetic on ids: no table has an entry for each device.
TEST(Topology, ManyDevicesAreAShortList) {
  const Result<Cluster> cluster = load_cluster("{nodes: 2048, devices_per_node: 8, device: h100-sxm-80gb}", "test");
  ASSERT_TRUE(cluster.ok());
  const Topology topology = nested_topology(*cluster);
  EXPECT_EQ(topology.devices(), 16384);
  EXPECT_EQ(topology.links(), 4 * 16384);
  EXPECT_EQ(topology.ranges().size(), 4u);
  std::vector<LinkId> links;
  for (std::int64_t d = 1; d < 16384; ++d) topology.route(d - 1, d, links);
  EXPECT_EQ(links.size(), 2u * 16383);
}

SiteGraph line() {
  SiteGraph graph;
  graph.names = {"a", "b", "c", "r"};
  const auto join = [&](std::int64_t from, std::int64_t to, double gb, double us) {
    graph.links.push_back({from, to, GBps(gb), microseconds(us), {}});
  };
  join(0, 3, 10, 1);
  join(3, 1, 20, 1);
  join(1, 3, 30, 1);
  join(3, 0, 40, 1);
  join(3, 2, 50, 1);
  join(2, 3, 60, 1);
  join(0, 2, 70, 5);  // direct, but slower than over r
  return graph;
}

TEST(Topology, ListedLinksAreDirectedAndRoutesHaveTheLeastLatency) {
  const Result<Topology> topology = listed_topology(line(), 3);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->devices(), 3);
  EXPECT_EQ(names(*topology, 0, 1), (Names{"a-r", "r-b"}));
  EXPECT_EQ(names(*topology, 1, 0), (Names{"b-r", "r-a"}));
  EXPECT_EQ(names(*topology, 0, 2), (Names{"a-r", "r-c"}));
  EXPECT_DOUBLE_EQ(route_bandwidth(*topology, 0, 1), 10e9);
  EXPECT_DOUBLE_EQ(route_bandwidth(*topology, 1, 0), 30e9);
  EXPECT_DOUBLE_EQ(route_latency(*topology, 0, 2), 2e-6);
}

TEST(Topology, ADirectLinkCanComeFirst) {
  SiteGraph graph = line();
  graph.direct_first = true;
  const Result<Topology> topology = listed_topology(graph, 3);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(names(*topology, 0, 2), (Names{"a-c"}));
  EXPECT_EQ(names(*topology, 0, 1), (Names{"a-r", "r-b"}));
}

TEST(Topology, AMatrixIsDirected) {
  SiteMatrix matrix;
  matrix.names = {"a", "b"};
  matrix.bandwidth = {GBps(0), GBps(1), GBps(2), GBps(0)};
  matrix.latency = {Seconds(0), Seconds(0.01), Seconds(0.02), Seconds(0)};
  const Result<Topology> topology = listed_topology(graph_of(matrix), 2);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(names(*topology, 0, 1), (Names{"a-b"}));
  EXPECT_DOUBLE_EQ(route_bandwidth(*topology, 0, 1), 1e9);
  EXPECT_DOUBLE_EQ(route_bandwidth(*topology, 1, 0), 2e9);
  EXPECT_DOUBLE_EQ(route_latency(*topology, 1, 0), 0.02);
}

TEST(Topology, GroupsJoinedByListedLinks) {
  Cluster cluster = cluster_of(2, 2, {level("NVSwitch", FabricKind::nvswitch, 2, 100)}, {});
  cluster.groups.front().inter = {level("rails", FabricKind::rail_optimized, 4, 20)};
  cluster.groups.push_back(cluster.groups.front());
  SiteGraph graph;
  graph.names = {"east", "west"};
  graph.links = {{0, 1, GBps(1), Seconds(0.03), {}}, {1, 0, GBps(2), Seconds(0.03), {}}};
  const Result<Topology> topology = joined_topology(cluster, graph);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(names(*topology, 1, 6), (Names{"rank:1 rails out", "east-west", "rank:6 rails in"}));
  EXPECT_EQ(names(*topology, 6, 1), (Names{"rank:6 rails out", "west-east", "rank:1 rails in"}));
  EXPECT_EQ(names(*topology, 4, 5), (Names{"rank:4 NVSwitch out", "rank:5 NVSwitch in"}));
}

TEST(Topology, WhatIsWrongWithAGraphIsSaid) {
  SiteGraph graph = line();
  graph.links.pop_back();
  graph.links.erase(graph.links.begin() + 5);  // no link leaves c any more
  EXPECT_EQ(listed_topology(graph, 3).error().found, "no path from c to a");
  graph = line();
  graph.links[2].to = 1;
  EXPECT_EQ(listed_topology(graph, 3).error().where, "links[2]");
  graph = line();
  graph.links[4].to = 9;
  EXPECT_EQ(listed_topology(graph, 3).error().found, "3 to 9");
  graph = line();
  graph.links[0].bandwidth = BytesPerSecond(-1);
  EXPECT_EQ(listed_topology(graph, 3).error().where, "links[0].bandwidth");
  graph = line();
  graph.links[0].latency = Seconds(-1);
  EXPECT_EQ(listed_topology(graph, 3).error().where, "links[0].latency");
  EXPECT_FALSE(listed_topology(line(), 5).ok());
  graph.names.resize(kMaxSites + 1);
  EXPECT_FALSE(listed_topology(graph, 3).ok());
}

TEST(Topology, DevicesAndLinksThatDoNotExistAreABug) {
  const Topology topology = nested_topology(cluster_of(1, 2, {level("NVSwitch", FabricKind::nvswitch, 2, 100)}, {}));
  EXPECT_THROW((void)topology.route(0, 2), base::InternalError);
  EXPECT_THROW((void)topology.route(-1, 0), base::InternalError);
  EXPECT_THROW((void)topology.range_of(4), base::InternalError);
}

}  // namespace
}  // namespace espalier::cluster
