// SPDX-License-Identifier: Apache-2.0
// Tests mixed clusters: names and numbers, speeds, joins of groups, prices. Each form is counted by hand; mistakes
// are reported with place and hint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "espalier/cluster.h"

namespace espalier::cluster::mixed_cluster_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// There are two nodes of 8 A100 (node:0, node:1; rank:0 … rank:15) and three nodes of 4 V100 (node:2 … node:4;
// rank:16 … rank:27).
constexpr const char* kGroups =
    "groups: [{name: fast, nodes: 2, devices_per_node: 8, device: a100-sxm-40gb, site: east, price_per_device_hour: 2.5},"
    " {nodes: 3, devices_per_node: 4, device: v100-sxm-16gb, site: west, speed: {\"node:3\": 0.8, \"rank:21\": 0.5}}]\n";

Cluster loaded(const std::string& text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().message());
  return cluster.ok() ? *cluster : Cluster{};
}

std::string failure(const std::string& text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_FALSE(cluster.ok()) << text;
  return cluster.ok() ? "" : cluster.error().message();
}

TEST(MixedCluster, NumbersRunNodeByNodeGroupByGroup) {
  const Cluster c = loaded(kGroups);
  EXPECT_EQ(c.devices(), 28);
  EXPECT_EQ(c.nodes(), 5);
  EXPECT_EQ(c.first_device(1), 16);
  EXPECT_EQ(c.first_node(1), 2);
  EXPECT_EQ(c.group_of(15), 0u);
  EXPECT_EQ(c.group_of(16), 1u);
  EXPECT_EQ(c.node_of(7), 0);
  EXPECT_EQ(c.node_of(8), 1);
  EXPECT_EQ(c.node_of(19), 2);
  EXPECT_EQ(c.node_of(20), 3);
  EXPECT_EQ(c.first_device_of_node(3), 20);
  EXPECT_EQ(c.group_of_node(4), 1u);
  EXPECT_EQ(c.groups[0].name, "fast");
  EXPECT_EQ(c.groups[1].name, "b");
  EXPECT_THAT(c.sites(), ElementsAre("east", "west"));
  EXPECT_EQ(c.groups[0].price_per_device_hour, 2.5);
  EXPECT_FALSE(c.groups[1].price_per_device_hour.has_value());
}

// node:3 holds ranks 20 to 23; the entry of rank:21 itself overrides that of its node.
TEST(MixedCluster, ASlowRankTakesThePlaceOfItsNode) {
  const Cluster c = loaded(kGroups);
  EXPECT_TRUE(c.has_speeds());
  EXPECT_EQ(c.groups[1].speed, (std::vector<DeviceSpeed>{{20, 0.8}, {21, 0.5}, {22, 0.8}, {23, 0.8}}));
  EXPECT_EQ(c.speed_of(21), 0.5);
  EXPECT_EQ(c.speed_of(22), 0.8);
  EXPECT_EQ(c.speed_of(24), 1.0);
  EXPECT_EQ(c.speed_of(0), 1.0);
  EXPECT_FALSE(loaded("{nodes: 1, device: h100-sxm-80gb}").has_speeds());
  EXPECT_EQ(loaded("{nodes: 1, device: h100-sxm-80gb, speed: {\"rank:7\": 0.9}}").speed_of(7), 0.9);
}

TEST(MixedCluster, TargetsByName) {
  const Cluster c = loaded(std::string(kGroups) + "links: [{from: fast, to: b, bandwidth: 10Gb/s, latency: 1ms, both: true}]");
  using Kind = ClusterTarget::Kind;
  EXPECT_EQ(*target_called(c, "fast", ""), (ClusterTarget{Kind::group, 0}));
  EXPECT_EQ(*target_called(c, "node:4", ""), (ClusterTarget{Kind::node, 4}));
  EXPECT_EQ(*target_called(c, "rank:27", ""), (ClusterTarget{Kind::device, 27}));
  EXPECT_EQ(*target_called(c, "b-fast", ""), (ClusterTarget{Kind::link, 1}));
  EXPECT_THAT(target_called(c, "node:5", "--lose").error().message(), HasSubstr("node:0 to node:4"));
  EXPECT_THAT(target_called(c, "fats", "x").error().message(), HasSubstr("did you mean \"fast\"?"));
  EXPECT_THAT(target_called(c, "fast-c", "x").error().message(), HasSubstr("fast-b or b-fast"));
  EXPECT_FALSE(target_called(c, "node:+3", "x").ok());
  EXPECT_FALSE(target_called(c, "rank:", "x").ok());
}

// Links are directed: 10 Gb/s = 1.25 GB/s one way, 5 Gb/s back. The A100 group has 8 NICs of 200 Gb/s a node, so the
// link is the narrowest.
TEST(MixedCluster, LinksAreDirected) {
  const Cluster c = loaded(std::string(kGroups) +
                           "links: [{from: fast, to: b, bandwidth: 10Gb/s, latency: 30ms},"
                           " {from: b, to: fast, bandwidth: 5Gb/s, latency: 20ms, sharing: node_pair}]");
  ASSERT_EQ(c.links.size(), 2u);
  EXPECT_EQ(c.links[0].sharing, LinkSharing::line);
  EXPECT_EQ(c.links[1].sharing, LinkSharing::node_pair);
  const GroupPath there = c.path(0, 1), back = c.path(1, 0);
  EXPECT_THAT(there.links, ElementsAre(0u));
  EXPECT_DOUBLE_EQ(there.bandwidth.count(), 1.25e9);
  EXPECT_DOUBLE_EQ(there.latency.count(), 0.030);
  EXPECT_THAT(back.links, ElementsAre(1u));
  EXPECT_DOUBLE_EQ(back.bandwidth.count(), 0.625e9);
  // One level represents them all: the 16 devices of the larger group share the line; the 8 of a node share a pair.
  ASSERT_EQ(c.inter.size(), 1u);
  EXPECT_EQ(c.inter[0].span, 28);
  EXPECT_DOUBLE_EQ(c.inter[0].bandwidth.count(), 0.625e9 / 8);
  EXPECT_DOUBLE_EQ(c.inter[0].latency.count(), 0.030);
}

// The path is a – x, then the line between the sites, then y – c: 1 ms, and nothing for the paths to the sites'
// routers. b is in the site of a.
TEST(MixedCluster, LinksBetweenSitesJoinTheirGroups) {
  const Cluster c = loaded(
      "groups: [{nodes: 2, device: h100-sxm-80gb, site: x}, {nodes: 2, device: a100-sxm-40gb, site: x},"
      " {nodes: 2, device: l4, site: y}]\n"
      "links: [{from: x, to: y, bandwidth: 40Gb/s, latency: 1ms, both: true}]");
  EXPECT_THAT(c.path(0, 2).links, ElementsAre(0u));
  EXPECT_DOUBLE_EQ(c.path(0, 2).latency.count(), 1e-3);
  EXPECT_DOUBLE_EQ(c.path(0, 2).bandwidth.count(), 5e9);
  EXPECT_TRUE(c.path(0, 1).links.empty());
  // The slower node has 8 × 25 GB/s · η.
  EXPECT_DOUBLE_EQ(c.path(0, 1).bandwidth.count(), c.groups[1].node_bandwidth.count());
}

// Without a link a-c, the path goes through b. A direct link is used even if the path through b is shorter.
TEST(MixedCluster, WaysRoundAndDirectLinks) {
  const std::string groups =
      "groups: [{nodes: 1, device: l4}, {nodes: 1, device: l4}, {nodes: 1, device: l4}]\nlinks: ["
      "{from: a, to: b, bandwidth: 8Gb/s, latency: 1ms, both: true}, {from: b, to: c, bandwidth: 4Gb/s, latency: 2ms, both: "
      "true}";
  const Cluster round = loaded(groups + "]");
  EXPECT_THAT(round.path(0, 2).links, ElementsAre(0u, 2u));
  EXPECT_DOUBLE_EQ(round.path(0, 2).bandwidth.count(), 0.5e9);
  EXPECT_DOUBLE_EQ(round.path(0, 2).latency.count(), 3e-3);
  const Cluster direct = loaded(groups + ", {from: a, to: c, bandwidth: 1Gb/s, latency: 9ms}]");
  EXPECT_THAT(direct.path(0, 2).links, ElementsAre(4u));
  EXPECT_THAT(direct.path(2, 0).links, ElementsAre(3u, 1u));
}

TEST(MixedCluster, MatrixInPlace) {
  const Cluster c = loaded(std::string(kGroups) +
                           "matrix: [{from: fast, to: b, gbps: 1.12, delay_ms: 11}, {from: b, to: fast, gbps: 0.8, delay_ms: 12},"
                           " {from: b, to: b, gbps: 2, delay_ms: 5}]");
  ASSERT_EQ(c.links.size(), 2u);
  EXPECT_EQ(c.links[0].sharing, LinkSharing::node_pair);
  EXPECT_DOUBLE_EQ(c.links[0].bandwidth.count(), 0.14e9);
  EXPECT_DOUBLE_EQ(c.links[1].latency.count(), 0.012);
  EXPECT_THAT(c.notes, testing::Contains(HasSubstr("rows from b to itself are not used")));
  EXPECT_THAT(c.notes, testing::Contains(HasSubstr("sharing = node_pair")));
}

// Group a has 100 Gb/s, 12.5 GB/s, a device at 2 us; b has 200 Gb/s for two devices, the same share, at 5 us. The join
// has the share and the longer latency. Twice the bandwidth of a changes neither.
TEST(MixedCluster, TheJoinTakesTheWorstOfEachFigure) {
  const auto join = [](const std::string& bandwidth) {
    const Cluster c =
        loaded("groups: [{nodes: 1, devices_per_node: 2, device: h100-sxm-80gb, inter_node: {bandwidth: " + bandwidth +
               ", nics_per_node: 2, latency: 2us}}, {nodes: 3, devices_per_node: 2, device: h100-sxm-80gb, inter_node: "
               "{bandwidth: 200Gb/s,"
               " nics_per_node: 1, latency: 5us}}]\n");
    return c.inter.back();
  };
  const FabricLevel level = join("100Gb/s"), twice = join("200Gb/s");
  EXPECT_EQ(level.bandwidth.count(), 12.5e9);
  EXPECT_EQ(level.bandwidth_alone.count(), 12.5e9);
  EXPECT_EQ(level.latency.count(), 5e-6);
  EXPECT_EQ(twice.bandwidth.count(), 12.5e9);
  EXPECT_EQ(twice.bandwidth_alone.count(), 25e9);
  EXPECT_EQ(twice.latency.count(), 5e-6);
}

// With InfiniBand on one side and Ethernet on the other, a node has 25 Gb/s · 0.7. Two groups that both have Ethernet
// use the slower of their nodes' rates.
TEST(MixedCluster, WithoutACommonInterfaceNodesFallBack) {
  const Cluster c = loaded(
      "groups: [{nodes: 2, device: h100-sxm-80gb, nic: infiniband}, {nodes: 2, device: l4, nic: [Ethernet]},"
      " {nodes: 2, device: a10g, nic: [ethernet, efa]}]");
  EXPECT_EQ(c.links.size(), 6u);
  EXPECT_DOUBLE_EQ(c.path(0, 1).bandwidth.count(), 25e9 / 8 * 0.7);
  EXPECT_DOUBLE_EQ(c.path(0, 1).latency.count(), 50e-6);
  EXPECT_DOUBLE_EQ(c.path(1, 2).bandwidth.count(), c.groups[1].node_bandwidth.count());
  EXPECT_THAT(c.notes,
              testing::Contains(HasSubstr("a (infiniband) and b (ethernet) have no kind of network interface in common")));
  const Cluster same = loaded("groups: [{nodes: 2, device: h100-sxm-80gb, nic: infiniband}, {nodes: 2, device: l4}]");
  EXPECT_TRUE(same.links.empty());  // an unstated interface meets all others
}

TEST(MixedCluster, EgressIsPricedByGroupsThenBySites) {
  const Cluster c = loaded(std::string(kGroups) + "egress_price_per_GB: {east-west: 0.09, b-fast: 0.02}\ncurrency: EUR");
  EXPECT_EQ(c.currency, "EUR");
  EXPECT_EQ(c.egress_price(0, 1), 0.09);
  EXPECT_EQ(c.egress_price(1, 0), 0.02);
  EXPECT_EQ(c.egress_price(1, 1), 0.0);
}

TEST(MixedCluster, NamesWithDashesAreRead) {
  const Cluster c = loaded(
      "groups: [{name: us-a, nodes: 1, device: l4}, {name: eu, nodes: 1, device: l4}]\n"
      "links: [{from: us-a, to: eu, bandwidth: 1Gb/s, latency: 50ms, both: true}]\negress_price_per_GB: {us-a-eu: 0.05}");
  EXPECT_EQ(c.link_called("us-a-eu"), std::size_t{0});
  EXPECT_EQ(c.egress_price(0, 1), 0.05);
}

TEST(MixedCluster, MistakesSayWhereAndWhatWasMeant) {
  const std::string g = kGroups;
  EXPECT_THAT(failure(g + "links: [{from: fast, to: bb, bandwidth: 1Gb/s}]"),
              testing::AllOf(HasSubstr("$.links[0].to"), HasSubstr("fast, b, east or west"), HasSubstr("did you mean \"b\"?")));
  EXPECT_THAT(failure(g + "links: [{from: fast, to: b, bandwidth: 1Gb/s, latency: 1ms}]"),
              testing::AllOf(HasSubstr("no path from b to fast"), HasSubstr("both: true")));
  EXPECT_THAT(failure(g + "links: [{from: b, to: b, bandwidth: 1Gb/s}]"), HasSubstr("a group or site other than"));
  EXPECT_THAT(failure(g + "links: [{from: fast, to: b, bandwidth: 1Gb/s, both: true}, {from: b, to: fast, bandwidth: 1Gb/s}]"),
              HasSubstr("a second link b-fast"));
  EXPECT_THAT(failure(g + "links: [{from: fast, to: b, bandwidth: -1Gb/s}]"), HasSubstr("$.links[0].bandwidth"));
  EXPECT_THAT(failure(g + "inter_group: {bandwidth: 1Gb/s}\nlinks: [{from: fast, to: b, bandwidth: 1Gb/s, both: true}]"),
              HasSubstr("one of inter_group, links and matrix"));
  EXPECT_THAT(failure(g + "egress_price_per_GB: {east-south: 0.1}"), HasSubstr("$.egress_price_per_GB.east-south"));
  EXPECT_THAT(failure(g + "matrix: m.csv"), HasSubstr("files can be opened only for a cluster file"));
  EXPECT_THAT(failure("{nodes: 1, device: l4, links: []}"), HasSubstr("links"));
  EXPECT_THAT(failure("groups: [{nodes: 1, device: l4, name: b}, {nodes: 1, device: l4}]"),
              HasSubstr("a second group called \"b\""));
  EXPECT_THAT(failure("groups: [{nodes: 1, device: l4, site: b}, {nodes: 1, device: l4}]"), HasSubstr("a site called \"b\""));
  EXPECT_THAT(failure("groups: [{nodes: 1, device: l4, name: \"node:3\"}, {nodes: 1, device: l4}]"),
              HasSubstr("letters, digits"));
  EXPECT_THAT(failure("{nodes: 1, device: l4, speed: {\"node:3\": 0.5}}"), HasSubstr("node:0, rank:0 to rank:7"));
  EXPECT_THAT(failure("{nodes: 1, device: l4, speed: {\"rank:3\": 0}}"), HasSubstr("$.speed.rank:3"));
  EXPECT_THAT(failure("{nodes: 1, device: l4, price_per_device_hour: -1}"), HasSubstr("price_per_device_hour"));
  EXPECT_THAT(failure("{nodes: 1, device: l4, nic: []}"), HasSubstr("at least one kind"));
}

}  // namespace
}  // namespace espalier::cluster::mixed_cluster_test
