// SPDX-License-Identifier: Apache-2.0
#include "search/cluster_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "search/test_fixture.h"

namespace espalier::search::cluster_parts_test {
namespace {

const std::string kThree =
    "groups: [{name: a, nodes: 1, devices_per_node: 4, device: t4}, {name: b, nodes: 2, devices_per_node: 2, device: l4, "
    "speed: {\"rank:5\": 0.5}}, {name: c, nodes: 1, devices_per_node: 8, device: t4}]";

TEST(ClusterParts, FewerGroupsAreAllPairsOfThree) {
  const test::Fixture one("{" + kThree + ", inter_group: {bandwidth: 10Gb/s}}");
  const std::vector<ClusterPart> parts = fewer_groups(one.problem, INT64_MAX);
  ASSERT_EQ(parts.size(), 3U);
  for (const ClusterPart& part : parts) {
    EXPECT_EQ(part.nodes.size(), 2U);
    EXPECT_EQ(part.cluster.devices(), device_count(one.cluster, part.nodes));
    EXPECT_EQ(part.cluster.inter, one.cluster.inter);
  }
  EXPECT_TRUE(fewer_groups(one.problem, 1).empty());
}

// Device 5 is the second of group b. Without group a it has number 1.
TEST(ClusterParts, SpeedsFollowTheirDevices) {
  const test::Fixture one("{" + kThree + ", inter_group: {bandwidth: 10Gb/s}}");
  for (const ClusterPart& part : fewer_groups(one.problem, INT64_MAX)) {
    if (part.nodes.front().group != 1) continue;
    EXPECT_DOUBLE_EQ(part.cluster.speed_of(1), 0.5);
    EXPECT_DOUBLE_EQ(part.cluster.speed_of(5), 1.0);
  }
}

// a and c reach each other through b alone, so the part without b is left out.
TEST(ClusterParts, PathsOverOtherGroupsAreLeftOut) {
  const test::Fixture one(
      "{" + kThree +
      ", links: [{from: a, to: b, bandwidth: 10Gb/s, latency: 1us, both: true}, {from: b, to: c, bandwidth: 10Gb/s, "
      "latency: 1us, both: true}]}");
  const std::vector<ClusterPart> parts = fewer_groups(one.problem, INT64_MAX);
  ASSERT_EQ(parts.size(), 2U);
  for (const ClusterPart& part : parts) EXPECT_EQ(part.cluster.links.size(), 2U);
}

TEST(ClusterParts, NothingWhereEveryDeviceMustWork) {
  const test::Fixture one("{" + kThree + ", inter_group: {bandwidth: 10Gb/s}}");
  Problem all = one.problem;
  all.space.devices = DeviceChoice::all;
  EXPECT_TRUE(fewer_groups(all, INT64_MAX).empty());
}

// With 1 and 2 nodes, {1, 1} is the only set of both groups that is not whole.
TEST(ClusterParts, PartsOfGroupsLeaveOutWholeGroups) {
  const test::Fixture one(
      "{groups: [{name: a, nodes: 1, devices_per_node: 4, device: t4}, {name: b, nodes: 2, devices_per_node: 2, device: l4}], "
      "inter_group: {bandwidth: 10Gb/s}}");
  const NodeParts found = node_parts(one.problem, INT64_MAX);
  ASSERT_EQ(found.parts.size(), 1U);
  EXPECT_EQ(found.parts.front().nodes, (NodeSet{{0, 1}, {1, 1}}));
  EXPECT_EQ(found.parts.front().cluster.devices(), 6);
  EXPECT_EQ(found.rest_bound_ns, INT64_MAX);
}

}  // namespace
}  // namespace espalier::search::cluster_parts_test
