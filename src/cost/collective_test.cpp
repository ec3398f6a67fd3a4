// SPDX-License-Identifier: Apache-2.0
#include "cost/collective.h"

#include <gtest/gtest.h>

namespace espalier::cost {
namespace {

/// Nodes of 8 at 100 GB/s, joined at 10 GB/s a device; efficiency 1, latencies 1 µs and 10 µs.
std::vector<FabricLevel> two_levels() {
  FabricLevel node, network;
  node.span = 8, node.bandwidth = GBps(100), node.bandwidth_alone = GBps(100), node.latency = microseconds(1),
  node.efficiency = 1;
  network.span = 64, network.bandwidth = GBps(10), network.bandwidth_alone = GBps(10), network.latency = microseconds(10),
  network.efficiency = 1;
  return {node, network};
}

// 8 ranks in a node, 80 MB: 80 MB · 7/8 / 100 GB/s = 700 µs, plus 7 hops of 1 µs.
TEST(Collective, RingInsideANode) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 1), 80e6), 707e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, place_group(levels, 8, 1), 80e6), 1414e-6, 1e-12);
}

// 16 ranks on 2 nodes: 8 rails carry 8 · 10 = 80 GB/s together, less than the 100 GB/s inside: 80 MB · 15/16 / 80 GB/s = 937.5 µs.
// Latency: 7 hops inside + 1 across = 7 + 10 µs.
TEST(Collective, RailsAddUp) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 16, 1), 80e6), (937.5 + 17) * 1e-6, 1e-12);
}

// One rank a node, 8 nodes: only its own rail: 80 MB · 7/8 / 10 GB/s = 7 ms; ring latency 70 µs, tree 2·3·10 = 60 µs but at 0.85 of
// the bandwidth.
TEST(Collective, StridedGroupHasOneRail) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 8), 80e6), 7070e-6, 1e-12);
  // small messages take the tree: 80 B
  EXPECT_LT(all_gather_s(levels, place_group(levels, 8, 8), 80), 61e-6);
}

// All-to-all of 16 MB a rank over 16 ranks on 2 nodes: half of it leaves the node: 8 MB / 10 GB/s = 800 µs; latency 3·1 + 1·10.
TEST(Collective, AllToAllIsBoundByTheNetwork) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_to_all_s(levels, place_group(levels, 16, 1), 16e6), 813e-6, 1e-12);
}

TEST(Collective, GroupsOfOneAreFree) {
  const auto levels = two_levels();
  EXPECT_EQ(all_reduce_s(levels, place_group(levels, 1, 1), 1e9), 0);
  EXPECT_EQ(all_to_all_s(levels, place_group(levels, 1, 1), 1e9), 0);
}

TEST(Placement, CountsMembersPerLevel) {
  const auto levels = two_levels();
  EXPECT_EQ(place_group(levels, 4, 2).members[0], 4);  // 0 2 4 6
  EXPECT_EQ(place_group(levels, 8, 2).members[0], 4);  // two nodes, four each
  EXPECT_EQ(place_group(levels, 3, 1).members[0], 1);  // groups of 3 straddle nodes of 8: a worst group has 1 + 2, gcd(3, 8) = 1
  EXPECT_EQ(place_group(levels, 2, 1, 4, 8).members[0], 2);
  EXPECT_EQ(place_group(levels, 2, 1, 4, 8).size, 8);
}

}  // namespace
}  // namespace espalier::cost
