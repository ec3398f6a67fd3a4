// SPDX-License-Identifier: Apache-2.0
#include "search/speed_classes.h"

#include <gtest/gtest.h>

#include "espalier/cluster.h"

namespace espalier::search {
namespace {

Cluster read(const std::string& text) { return load_cluster(text, "test").value(); }

/// Node 1 of nodes 0 to 3 has half the speed: nodes 0, 2 and 3 are one class, node 1 the other.
TEST(SpeedClasses, ASlowNodeIsAClassOfItsOwn) {
  const SpeedClasses classes(read("{nodes: 4, devices_per_node: 2, device: a100-sxm-40gb, speed: {\"node:1\": 0.5}}"));
  ASSERT_EQ(classes.cluster().groups.size(), 2U);
  const NodeGroup &fast = classes.cluster().groups[0], &slow = classes.cluster().groups[1];
  EXPECT_EQ(fast.nodes, 3);
  EXPECT_EQ(fast.devices_per_node, 2);
  EXPECT_EQ(slow.nodes, 1);
  EXPECT_EQ(slow.device, fast.device.at_speed(0.5));
  EXPECT_EQ(classes.devices(), (std::vector<std::int64_t>{0, 1, 4, 5, 6, 7, 2, 3}));
  EXPECT_FALSE(classes.cluster().has_speeds());
  EXPECT_FALSE(classes.exact());  // nodes 0 and 2 are no neighbours
  Pipeline pipeline;
  pipeline.stages.resize(2);
  pipeline.stages[0].devices = {{0, 6, 1}};
  pipeline.stages[1].devices = {{6, 2, 1}};
  const std::vector<Pipeline> on = classes.on_devices({pipeline});
  EXPECT_EQ(on[0].stages[0].devices, (std::vector<DeviceRange>{{0, 2, 1}, {4, 4, 1}}));
  EXPECT_EQ(on[0].stages[1].devices, (std::vector<DeviceRange>{{2, 2, 1}}));
}

TEST(SpeedClasses, NeighboursUnderOneLevelAreExact) {
  EXPECT_TRUE(SpeedClasses(read("{nodes: 4, devices_per_node: 2, device: a100-sxm-40gb, speed: {\"node:3\": 0.5}}")).exact());
  EXPECT_TRUE(
      SpeedClasses(read("{nodes: 4, devices_per_node: 2, device: a100-sxm-40gb, speed: {\"node:0\": 0.5, \"node:1\": 0.5}}"))
          .exact());
  EXPECT_FALSE(SpeedClasses(read("{nodes: 4, devices_per_node: 2, device: a100-sxm-40gb, speed: {\"rank:7\": 0.5}}")).exact());
}

/// One of eight devices is slow: the node becomes blocks of 4, 2, 1 and the slow one; nodes without it stay whole.
TEST(SpeedClasses, ASlowRankLeavesBlocksOfPowersOfTwo) {
  const SpeedClasses classes(read("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb, speed: {\"rank:9\": 0.8}}"));
  std::vector<std::int64_t> sizes, nodes;
  for (const NodeGroup& group : classes.cluster().groups) {
    sizes.push_back(group.devices_per_node);
    nodes.push_back(group.nodes);
    EXPECT_EQ(group.intra.empty(), group.devices_per_node == 1);
    if (group.intra.empty()) continue;
    EXPECT_EQ(group.intra.back().span, group.devices_per_node);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{8, 4, 2, 1, 1}));
  EXPECT_EQ(nodes, (std::vector<std::int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(classes.devices(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 10, 11, 8, 9}));
}

/// Two of the three devices of the only node are fast. They form blocks of one device each, which communicate inside
/// the node.
TEST(SpeedClasses, BlocksOfOneNodeTalkInsideIt) {
  const SpeedClasses classes(read("{nodes: 1, devices_per_node: 3, device: a100-sxm-40gb, speed: {\"rank:1\": 0.5}}"));
  ASSERT_EQ(classes.cluster().groups.size(), 2U);
  const NodeGroup& fast = classes.cluster().groups[0];
  EXPECT_EQ(fast.nodes, 2);
  EXPECT_EQ(fast.devices_per_node, 1);
  ASSERT_EQ(fast.inter.size(), 1U);
  EXPECT_EQ(fast.inter.front().span, 2);
  EXPECT_EQ(classes.devices(), (std::vector<std::int64_t>{0, 2, 1}));
}

/// Classes of one group are joined by its own network, classes of two groups by the link between these.
TEST(SpeedClasses, KeepTheNetworkOfTheirGroups) {
  const SpeedClasses classes(read(
      "{groups: [{name: a, nodes: 2, devices_per_node: 4, device: a100-sxm-40gb, inter_node: {bandwidth: 200Gb/s, latency: 5us}, "
      "speed: {\"node:1\": 0.5}}, {name: b, nodes: 2, devices_per_node: 4, device: v100-sxm-32gb}], "
      "inter_group: {bandwidth: 1Gb/s, latency: 1ms}}"));
  const Cluster& c = classes.cluster();
  ASSERT_EQ(c.groups.size(), 3U);
  EXPECT_EQ(c.links.size(), 6U);
  EXPECT_GT(c.path(0, 1).bandwidth.count(), 20 * c.path(0, 2).bandwidth.count());
  EXPECT_DOUBLE_EQ(c.path(0, 2).latency.count(), 1e-3);
  EXPECT_FALSE(classes.exact());
}

}  // namespace
}  // namespace espalier::search
