// SPDX-License-Identifier: Apache-2.0
#include "cost/collective.h"

#include <gtest/gtest.h>

#include <cmath>

namespace espalier::cost::collective_test {
namespace {

/// Returns nodes of 8 at 100 GB/s, joined at 10 GB/s per device; efficiency 1, latencies 1 µs and 10 µs.
std::vector<FabricLevel> two_levels() {
  FabricLevel node, network;
  node.span = 8;
  node.bandwidth = GBps(100);
  node.bandwidth_alone = GBps(100);
  node.latency = microseconds(1);
  node.efficiency = 1;
  network.span = 64;
  network.bandwidth = GBps(10);
  network.bandwidth_alone = GBps(10);
  network.latency = microseconds(10);
  network.efficiency = 1;
  return {node, network};
}

// 8 ranks in a node, 80 MB: 80 MB · 7/8 / 100 GB/s = 700 µs, plus 7 hops of 1 µs.
TEST(Collective, RingInsideANode) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 1), 80e6), 707e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, place_group(levels, 8, 1), 80e6), 1414e-6, 1e-12);
}

// 16 ranks on 2 nodes: 8 rails carry 8 · 10 = 80 GB/s together, less than the 100 GB/s inside: 80 MB · 15/16 / 80 GB/s
// = 937.5 µs. Latency of the flat ring: 14 hops inside + 1 across = 14 + 10 µs.
TEST(Collective, RailsAddUp) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 16, 1), 80e6), (937.5 + 24) * 1e-6, 1e-12);
}

// One rank per node on 8 nodes has only its own rail: 80 MB · 7/8 / 10 GB/s = 7 ms. Gathering is a ring: 7 hops of
// 10 µs, however small.
TEST(Collective, StridedGroupHasOneRail) {
  const auto levels = two_levels();
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 8), 80e6), 7070e-6, 1e-12);
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 8), 80), 70e-6, 1e-8);
}

// Small all-reduces take a tree between nodes: 2 · ⌈log2 8⌉ · 10 µs instead of 2 · 7 · 10 µs. Large ones take the
// ring, because trees reach 0.92: 80 MB need 14 ms + 140 µs.
TEST(Collective, SmallAllReducesTakeTheTree) {
  auto levels = two_levels();
  levels[1].kind = FabricKind::fat_tree;
  EXPECT_NEAR(all_reduce_s(levels, place_group(levels, 8, 8), 80), 60e-6, 1e-7);
  EXPECT_NEAR(all_reduce_s(levels, place_group(levels, 8, 8), 80e6), 14140e-6, 1e-9);
}

// Start 43 µs + 7 hops = 50 µs; bytes 700 µs · (1 + 0.7/7) = 770 µs; ramp 1: √(50 · 770) = 196.2 µs. All-reduce: 57 µs,
// twice the bytes and half the loss: 1400 · 1.05 = 1470 µs, √(57 · 1470) = 289.5 µs.
TEST(Collective, StartRampAndSmallGroups) {
  auto levels = two_levels();
  levels[0].start = microseconds(43);
  levels[0].ramp = 1.0;
  levels[0].small_group = 0.7;
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 1), 80e6), (50 + 770 + std::sqrt(50.0 * 770)) * 1e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, place_group(levels, 8, 1), 80e6), (57 + 1470 + std::sqrt(57.0 * 1470)) * 1e-6, 1e-12);
}

// With congestion 0.05, 8 joined domains lose a factor 1 + 0.05 · 3.
TEST(Collective, CongestionGrowsWithTheNodesJoined) {
  auto levels = two_levels();
  levels[1].congestion = 0.05;
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 8), 80e6), (7000 * 1.15 + 70) * 1e-6, 1e-12);
}

// An all-gather of 8 MB over 8 ranks passes 7 MB through each. In 70 µs at 100 GB/s κ_w = 1.1 + 5 · 0.1 = 1.6; in
// 140 µs, as it waits for as long again, 1.35. It is bounded so that running together is never worse than one after
// the other: κ_c = 2 allows κ_w = 2. Measured factors do not change.
TEST(Collective, SlowdownFollowsTheTraffic) {
  const auto levels = two_levels();
  const double moved = moved_bytes(CollectiveKind::all_gather, levels, place_group(levels, 8, 1), 8e6);
  EXPECT_NEAR(moved, 7e6, 1e-6);
  EXPECT_EQ(moved_bytes(CollectiveKind::all_gather, levels, place_group(levels, 1, 1), 8e6), 0.0);
  EXPECT_NEAR(moved_bytes(CollectiveKind::all_reduce, levels, place_group(levels, 8, 1), 8e6), 14e6, 1e-6);
  DeviceEfficiency e;
  e.overlap_compute_slowdown = 1.1;
  e.overlap_communication_slowdown = 1.0;
  e.overlap_traffic = 5;
  EXPECT_NEAR(interference_of(e, 1e12).of(moved, 70e-6).compute, 1.6, 1e-12);
  EXPECT_NEAR(interference_of(e, 1e12).of(moved, 140e-6).compute, 1.35, 1e-12);
  EXPECT_EQ(interference_of(e, 1e12).of(0.0, 0.0).compute, 1.1);
  e.overlap_communication_slowdown = 2.0;
  e.overlap_traffic = 20;
  EXPECT_EQ(interference_of(e, 1e12).of(moved, 70e-6).compute, 2.0);
  e.measured_overlap = true;
  EXPECT_EQ(interference_of(e, 1e12).of(moved, 70e-6).compute, 1.1);
}

// Switches that add pass S/0.7 where a ring would pass more, over one level alone.
TEST(Collective, SwitchesMoveLess) {
  auto levels = two_levels();
  levels[0].in_network_reduction = true;
  EXPECT_NEAR(moved_bytes(CollectiveKind::all_reduce, levels, place_group(levels, 8, 1), 7e6), 10e6, 1e-6);
  EXPECT_NEAR(moved_bytes(CollectiveKind::all_reduce, levels, place_group(levels, 2, 1), 7e6), 7e6, 1e-6);
}

// An all-to-all of 16 MB per rank over 16 ranks on 2 nodes: half of it leaves the node, 8 MB / 10 GB/s = 800 µs;
// latency 3·1 + 1·10.
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
  // Groups of 3 straddle nodes of 8: the worst one has 1 + 2, gcd(3, 8) = 1.
  EXPECT_EQ(place_group(levels, 3, 1).members[0], 1);
  EXPECT_EQ(place_group(levels, 2, 1, 4, 8).members[0], 2);
  EXPECT_EQ(place_group(levels, 2, 1, 4, 8).size, 8);
}

/// Returns hosts with one device each at 1 GB/s, hops of 10 µs, start 5 µs; collectives of Espalier's runtime, direct
/// up to 1 MB.
std::vector<FabricLevel> hosts() {
  FabricLevel level;
  level.kind = FabricKind::ethernet;
  level.span = 8;
  level.bandwidth = level.bandwidth_alone = GBps(1);
  level.latency = microseconds(10);
  level.start = microseconds(5);
  level.efficiency = 1;
  level.direct_bytes = 1e6;
  return {level};
}

// Four hosts, 1 MB: 0.75 MB leave each, 750 µs, requested and sent in 5 + 10 µs. An all-reduce exchanges the parts,
// then the sums, which were requested before: 5 + 2·10 + 1500 µs. With 100 kB the four copies are 400 kB: one
// exchange of 300 kB, 5 + 10 + 300 µs.
TEST(Collective, OwnCollectivesAreDirectUpToALimit) {
  const auto levels = hosts();
  const Group four = place_group(levels, 4, 1);
  EXPECT_NEAR(all_gather_s(levels, four, 1e6), 765e-6, 1e-12);
  EXPECT_NEAR(reduce_scatter_s(levels, four, 1e6), 765e-6, 1e-12);
  EXPECT_NEAR(all_to_all_s(levels, four, 1e6), 765e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, four, 1e6), 1525e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, four, 1e5), 315e-6, 1e-12);
}

// 4 MB are beyond the limit: rings of 3 hops and 3 ms, no tree for the all-reduce (2 · 3 hops, where trees take 2 ·
// 2), three rounds for the all-to-all.
TEST(Collective, OwnCollectivesAreRingsBeyondIt) {
  const auto levels = hosts();
  const Group four = place_group(levels, 4, 1);
  EXPECT_NEAR(all_gather_s(levels, four, 4e6), 3035e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, four, 4e6), 6065e-6, 1e-12);
  EXPECT_NEAR(all_to_all_s(levels, four, 4e6), 3035e-6, 1e-12);
}

// Two sites of 4 hosts and a line of 0.1 GB/s per host. With 0.8 MB every host sends its 0.1 MB to the four beyond:
// 0.4 MB in 4 ms. The longest hop counts.
TEST(Collective, DirectMessagesCrossALineOnceForEveryReceiver) {
  auto levels = hosts();
  levels.front().span = 4;
  levels.push_back(levels.front());
  levels[1].span = 8;
  levels[1].bandwidth = levels[1].bandwidth_alone = GBps(0.1);
  levels[1].latency = microseconds(500);
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 1), 8e5), 4505e-6, 1e-12);
  // The least of the levels counts: a ring, in which the four hosts' links to the line carry 0.7 MB together.
  levels[1].direct_bytes = 1e5;
  EXPECT_NEAR(all_gather_s(levels, place_group(levels, 8, 1), 8e5), 1750e-6 + 5e-6 + 6 * 10e-6 + 500e-6, 1e-12);
}

// 1.2 MB are a ring of 5 + 30 + 900 µs; two gathers of 0.6 MB go directly and take less, 2 · (5 + 10 + 450) µs.
// However they are cut, they take at least 915 µs: one hop and the bytes. An all-reduce of them is a ring of 5 + 60
// + 1800 µs; it takes at least one hop and the bytes. Without direct messages nothing changes.
TEST(Collective, BytesTakeTheirLeastHoweverTheyAreCut) {
  auto levels = hosts();
  const Group four = place_group(levels, 4, 1);
  EXPECT_NEAR(all_gather_s(levels, four, 1.2e6), 935e-6, 1e-12);
  EXPECT_NEAR(2 * all_gather_s(levels, four, 0.6e6), 930e-6, 1e-12);
  EXPECT_NEAR(all_gather_least_s(levels, four, 1.2e6), 915e-6, 1e-12);
  EXPECT_NEAR(all_reduce_s(levels, four, 1.2e6), 1865e-6, 1e-12);
  EXPECT_NEAR(all_reduce_least_s(levels, four, 1.2e6), 1815e-6, 1e-12);
  levels.front().direct_bytes = 0;
  EXPECT_EQ(all_gather_least_s(levels, four, 1.2e6), all_gather_s(levels, four, 1.2e6));
  EXPECT_EQ(all_reduce_least_s(levels, four, 1.2e6), all_reduce_s(levels, four, 1.2e6));
}

/// Tests levels inside a node and between nodes, ramps, small groups and direct links: no cut of bytes takes less
/// than the least of all of them.
TEST(Collective, LeastIsBelowEveryCut) {
  auto levels = hosts();
  levels.front().span = 4;
  levels.front().per_peer = GBps(0.5);
  levels.front().ramp = 0.3;
  levels.push_back(levels.front());
  levels[1].span = 8;
  levels[1].latency = microseconds(300);
  levels[1].small_group = 0.4;
  const Group eight = place_group(levels, 8, 1);
  for (const double bytes : {2e4, 1.2e5, 1.3e5, 9e5, 1.1e6, 7e6})
    for (const int pieces : {1, 2, 7, 40}) {
      const double piece = bytes / pieces;
      EXPECT_LE(all_gather_least_s(levels, eight, bytes), pieces * all_gather_s(levels, eight, piece) * (1 + 1e-12)) << bytes;
      EXPECT_LE(all_reduce_least_s(levels, eight, bytes), pieces * all_reduce_s(levels, eight, piece) * (1 + 1e-12)) << bytes;
    }
}

}  // namespace
}  // namespace espalier::cost::collective_test
