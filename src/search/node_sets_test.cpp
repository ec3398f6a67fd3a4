// SPDX-License-Identifier: Apache-2.0
#include "search/node_sets.h"

#include <gtest/gtest.h>

#include "search/test_fixture.h"

namespace espalier::search {
namespace {

const std::string kTwoGroups =
    "{groups: [{name: a, nodes: 2, devices_per_node: 2, device: t4}, {name: b, nodes: 1, devices_per_node: 4, device: l4}], "
    "inter_group: {bandwidth: 10Gb/s}}";

Cluster two_groups() { return load_cluster(kTwoGroups, "test").value(); }

/// Node 0 of group b has devices 4 to 7, the first node of a has devices 0 and 1.
TEST(NodeSets, DevicesInTheOrderOfTheParts) {
  const Cluster cluster = two_groups();
  EXPECT_EQ(devices_of(cluster, {{1, 1}, {0, 1}}), (std::vector<std::int64_t>{4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(device_count(cluster, {{1, 1}, {0, 1}}), 6);
  EXPECT_EQ(cluster_of(cluster, {{1, 1}, {0, 1}}).devices(), 6);
}

TEST(NodeSets, StagesKeepTheirPlaces) {
  const Cluster cluster = two_groups();
  Pipeline pipeline;
  pipeline.stages.resize(2);
  pipeline.stages[0].devices = {{0, 3, 1}};
  pipeline.stages[1].devices = {{3, 3, 1}};
  const auto moved = on_devices({pipeline}, devices_of(cluster, {{1, 1}, {0, 1}}));
  EXPECT_EQ(moved[0].stages[0].devices, (std::vector<DeviceRange>{{4, 3, 1}}));
  EXPECT_EQ(moved[0].stages[1].devices, (std::vector<DeviceRange>{{7, 1, 1}, {0, 2, 1}}));
}

/// Only the first of equal groups are used.
TEST(NodeSets, EqualGroupsAreTakenInOrder) {
  test::Fixture x(kTwoGroups);
  x.cluster.groups[1] = x.cluster.groups[0];
  x.cluster.groups[1].name = "b";
  const NodeSets sets = node_sets(x.problem, WorkBound(x.problem), 2, INT64_MAX);
  ASSERT_EQ(sets.sets.size(), 3U);  // 2 + 2, 2 + 1 and 1 + 1 nodes, not 1 + 2
  EXPECT_EQ(sets.sets[0], (NodeSet{{0, 2}, {1, 2}}));
  EXPECT_EQ(sets.sets[1], (NodeSet{{0, 2}, {1, 1}}));
  EXPECT_EQ(sets.sets[2], (NodeSet{{0, 1}, {1, 1}}));
}

// Group b has three nodes of one device, and its second device runs at half speed. Its first two nodes are worth 1.5
// devices.
TEST(NodeSets, PartsOfAGroupWithASlowDevice) {
  test::Fixture x(kTwoGroups);
  NodeGroup& b = x.cluster.groups[1];
  b.nodes = 3;
  b.devices_per_node = 1;
  b.intra.clear();
  b.speed = {{x.cluster.first_device(1) + 1, 0.5}};
  const WorkBound work(x.problem);
  EXPECT_DOUBLE_EQ(work.capacity(1, 1), 1.0);
  EXPECT_DOUBLE_EQ(work.capacity(1, 2), 1.5);
  EXPECT_DOUBLE_EQ(work.capacity(1), 2.5);
  EXPECT_EQ(node_sets(x.problem, work, 2, INT64_MAX).sets.size(), 2U * 3U);
}

TEST(NodeSets, EveryOrderOnce) {
  const Cluster unlike = two_groups();
  EXPECT_EQ(orders_of(unlike, {{0, 2}, {1, 1}}).orders.size(), 2U);
  Cluster equal = unlike;
  equal.groups[1] = equal.groups[0];
  equal.groups[1].name = "b";
  EXPECT_EQ(orders_of(equal, {{0, 2}, {1, 2}}).orders.size(), 1U);
  EXPECT_EQ(orders_of(equal, {{0, 2}, {1, 1}}).orders.size(), 2U);
}

}  // namespace
}  // namespace espalier::search
