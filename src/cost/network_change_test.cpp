// SPDX-License-Identifier: Apache-2.0
// The shares that bounds keep, by hand. A cluster of two levels: 8 devices at 400 GB/s inside a node, 50 GB/s each
// between nodes; no overlap_traffic, equal ramps.
#include "cost/network_change.h"

#include <gtest/gtest.h>

namespace espalier::cost::network_change_test {
namespace {

FabricLevel level(std::int64_t span, double bandwidth) {
  FabricLevel l;
  l.span = span;
  l.bandwidth = l.bandwidth_alone = BytesPerSecond(bandwidth);
  l.latency = Seconds(1e-6);
  l.start = Seconds(1e-5);
  l.efficiency = 1.0;
  l.ramp = 1.0;
  return l;
}

Cluster two_levels() {
  Cluster c;
  NodeGroup group;
  group.nodes = 4;
  group.devices_per_node = 8;
  group.device.memory = GiB(80);
  group.device.memory_bandwidth = BytesPerSecond(2e12);
  group.intra = {level(8, 400e9)};
  c.groups = {group};
  c.inter = {level(32, 50e9)};
  return c;
}

double ratio(const Cluster& before, const Cluster& after) { return network_change(before, after).ratio; }

// A proof under offload to a slow host does not transfer to a fast one.
TEST(NetworkChange, OtherHostsKeepNothing) {
  Cluster slow = two_levels();
  slow.groups[0].host = {GiB(1024), BytesPerSecond(100e9), BytesPerSecond(10e9), {}};
  Cluster fast = slow;
  EXPECT_TRUE(network_change(slow, fast).equal);
  fast.groups[0].host.link = BytesPerSecond(50e9);
  EXPECT_FALSE(network_change(slow, fast).equal);
  EXPECT_EQ(ratio(slow, fast), NetworkChange{}.ratio);
}

TEST(NetworkChange, SlowerLinksKeepAllAndFasterOnesTheirPart) {
  const Cluster nominal = two_levels();
  EXPECT_TRUE(network_change(nominal, nominal).equal);
  Cluster slower = nominal;
  slower.inter[0].bandwidth = BytesPerSecond(25e9);
  EXPECT_EQ(ratio(nominal, slower), 1.0);
  EXPECT_EQ(ratio(slower, nominal), 0.5);  // messages take at least half as long
  Cluster quicker = nominal;
  quicker.groups[0].intra[0].latency = Seconds(0.8e-6);
  EXPECT_NEAR(ratio(nominal, quicker), 0.8, 1e-12);
}

// Level 0 has ramp 1.5 and level 1 ramp 1, and links inside are as slow as between nodes. A slower network brings the
// smaller ramp in place of the larger one, and κ_w = 1 + 5 · 400e9/2e12 = 2 falls to 1.5. Collectives and compute
// next to them still take no less (collective.h, overlap.h).
TEST(NetworkChange, NothingIsFasterOnASlowerNetwork) {
  Cluster nominal = two_levels();
  nominal.groups[0].intra[0].ramp = 1.5;
  DeviceEfficiency& e = nominal.groups[0].device.efficiency;
  e.overlap_compute_slowdown = e.overlap_communication_slowdown = 1.0;
  e.overlap_traffic = 5;
  Cluster slower = nominal;
  slower.inter[0].bandwidth = BytesPerSecond(25e9);
  EXPECT_EQ(ratio(nominal, slower), 1.0);
  EXPECT_EQ(ratio(slower, nominal), 0.5);
}

// A network that is partly faster and partly slower is never "only slower": the faster part decides, wherever it is.
TEST(NetworkChange, FasterAndSlowerAtOnceKeepsWhatTheFasterPartKeeps) {
  const Cluster nominal = two_levels();
  Cluster mixed = nominal;
  mixed.groups[0].intra[0].bandwidth = BytesPerSecond(800e9);
  mixed.inter[0].bandwidth = BytesPerSecond(25e9);
  EXPECT_EQ(ratio(nominal, mixed), 0.5);  // twice as fast inside
  EXPECT_EQ(ratio(mixed, nominal), 0.5);  // twice as fast between
  EXPECT_FALSE(network_change(nominal, mixed).equal);
  Cluster prompt = nominal;  // fewer bytes per second, but sooner
  prompt.inter[0].bandwidth = BytesPerSecond(25e9);
  prompt.inter[0].latency = Seconds(0.25e-6);
  EXPECT_NEAR(ratio(nominal, prompt), 0.25, 1e-12);
  prompt.inter[0].latency = nominal.inter[0].latency;
  prompt.inter[0].start = Seconds(0.8e-5);
  EXPECT_NEAR(ratio(nominal, prompt), 0.8, 1e-12);
  Cluster pairs = nominal;  // a pair of devices slower, a device that talks to several faster
  pairs.groups[0].intra[0].per_peer = BytesPerSecond(50e9);
  Cluster both = pairs;
  both.groups[0].intra[0].per_peer = BytesPerSecond(25e9);
  both.groups[0].intra[0].bandwidth = BytesPerSecond(500e9);
  EXPECT_NEAR(ratio(pairs, both), 0.8, 1e-12);
  EXPECT_NEAR(ratio(both, pairs), 0.5, 1e-12);
}

// The ramp of a level that counted no longer does, and another level is faster: the faster one decides. With all
// bandwidths at 0.8 of themselves, 400 inside and 8 · 50 between were equal and still are, except for rounding, and
// nothing is faster.
TEST(NetworkChange, AFasterLevelAndARampThatStopsToCount) {
  Cluster nominal = two_levels(), mixed;
  nominal.groups[0].intra[0].ramp = 1.5;
  mixed = nominal;
  mixed.groups[0].intra[0].bandwidth = BytesPerSecond(800e9);
  mixed.inter[0].bandwidth = BytesPerSecond(25e9);
  EXPECT_NEAR(ratio(nominal, mixed), 0.5, 1e-12);
  Cluster all = nominal;
  all.groups[0].intra[0].bandwidth = BytesPerSecond(320e9);
  all.inter[0].bandwidth = BytesPerSecond(40e9);
  EXPECT_EQ(ratio(nominal, all), 1.0);
  EXPECT_EQ(ratio(nominal, nominal), 1.0);
}

// A slow device makes other groups of devices. With links that also became faster, the cluster must not pass as one
// that only became slower.
TEST(NetworkChange, DevicesOfUnequalSpeedAreNotComparable) {
  const Cluster nominal = two_levels();
  Cluster slow = nominal;
  slow.groups[0].speed = {{5, 0.5}};
  EXPECT_EQ(ratio(nominal, slow), 0.0);
  EXPECT_EQ(ratio(slow, nominal), 0.0);
  EXPECT_EQ(ratio(slow, slow), 0.0);
  slow.inter[0].bandwidth = BytesPerSecond(100e9);
  EXPECT_EQ(ratio(nominal, slow), 0.0);
}

TEST(NetworkChange, OtherNodesOrDevicesAreNotComparable) {
  const Cluster nominal = two_levels();
  Cluster fewer = nominal;
  fewer.groups[0].nodes = 3;
  EXPECT_EQ(ratio(nominal, fewer), 0.0);
  Cluster other = nominal;
  other.groups[0].device.memory_bandwidth = BytesPerSecond(3e12);
  EXPECT_EQ(ratio(nominal, other), 0.0);
  Cluster flat = nominal;
  flat.inter[0].congestion = 0.1;
  EXPECT_EQ(ratio(nominal, flat), 0.0);
  Cluster less = nominal;
  less.memory_limit = GiB(40);
  EXPECT_TRUE(network_change(nominal, less).equal);  // memory does not affect times
}

// 10 ms, half of which stays. 2 micro-batches and 3 layers have 32 · (2 + 2) · (4·3 + 64) = 9,728 ns of rounding.
TEST(NetworkChange, BoundsLoseTheirRoundings) {
  const NetworkChange half{0.5, false};
  EXPECT_NEAR(static_cast<double>(half.bound_after(10'000'000, 2, 3)), 5'000'000 - 9'728, 1);
  EXPECT_EQ(half.bound_after(10'000, 2, 3), 0);
  EXPECT_EQ(half.bound_after(INT64_MAX, 2, 3), INT64_MAX);  // nothing fits, before as after
  const NetworkChange none{1.0, true};
  EXPECT_EQ(none.bound_after(10'000, 2, 3), 10'000);
}

}  // namespace
}  // namespace espalier::cost::network_change_test
