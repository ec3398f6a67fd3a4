// SPDX-License-Identifier: Apache-2.0
// Tests the flow-level network by hand. A link of 1e9 bytes/s moves one byte a nanosecond.
#include "sim/flow_network.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/invariant.h"
#include "cluster/topology_builders.h"
#include "sim/topology_network.h"

namespace espalier::sim::flow_network_test {
namespace {

constexpr double kByteANanosecond = 1e9;
using Ends = std::vector<FinishedActivity>;

/// Returns an activity of one flow over `links`, each once.
Activity transfer(std::int64_t duration, std::int64_t bytes, std::vector<LinkId> links, std::int64_t fixed = 0) {
  Activity activity;
  activity.duration_ns = duration;
  activity.fixed_ns = fixed;
  activity.flows.push_back({uses_of(links), bytes});
  return activity;
}

/// Advances the network until no event is left.
Ends run(FlowNetwork& network) {
  Ends ends;
  for (auto next = network.next_event(); next; next = network.next_event()) network.advance(*next, ends);
  return ends;
}

TEST(FlowNetwork, ALoneTransferTakesItsDuration) {
  FlowNetwork network({kByteANanosecond});
  EXPECT_EQ(network.start(5, transfer(1234, 1200, {0}, 34)), 0);
  EXPECT_EQ(run(network), (Ends{{1239, 0}}));
  EXPECT_EQ(network.active(), 0);
}

// A and B have 1000 bytes each on one byte/ns. A moves 500 alone, then half a byte/ns: another 500 take 1000 ns,
// until 1500. B has moved 500 by then and needs 500 ns for the rest.
TEST(FlowNetwork, TwoTransfersShareALink) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(1000, 1000, {0}));
  network.start(500, transfer(1000, 1000, {0}));
  EXPECT_EQ(run(network), (Ends{{1500, 0}, {2000, 1}}));
}

// The second one first spends 500 ns on latency, during which the first has the link to itself; then as above.
TEST(FlowNetwork, TheFixedPartIsNeitherSharedNorStretched) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(1000, 1000, {0}));
  network.start(0, transfer(1500, 1000, {0}, 500));
  EXPECT_EQ(run(network), (Ends{{1500, 0}, {2000, 1}}));
}

// Caps of 1/4 and 1/2 byte/ns fit together on one byte/ns.
TEST(FlowNetwork, WhatFitsTogetherIsNotShared) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(4000, 1000, {0}));
  network.start(0, transfer(2000, 1000, {0}));
  EXPECT_EQ(run(network), (Ends{{2000, 1}, {4000, 0}}));
  EXPECT_EQ(network.counters().solves, 0);
}

// Caps of 1/4, 1 and 1 on one byte/ns give rates of 1/4 and twice 3/8. The two transfers of 300 bytes end at 800; the
// slow one was never slowed down.
TEST(FlowNetwork, ASlowTransferKeepsItsCap) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(4000, 1000, {0}));
  network.start(0, transfer(300, 300, {0}));
  network.start(0, transfer(300, 300, {0}));
  EXPECT_EQ(run(network), (Ends{{800, 1}, {800, 2}, {4000, 0}}));
}

// The link has one byte/ns, and a duration was rounded down: 1001 bytes in 1000 ns pass unhindered (1001 / 1001 ≤ 1).
// 1003 bytes exceed any rounding: they take 1003 ns.
TEST(FlowNetwork, RoundingIsNotContention) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(1000, 1001, {0}));
  EXPECT_EQ(run(network), (Ends{{1000, 0}}));
  network.start(2000, transfer(1000, 1003, {0}));
  EXPECT_EQ(run(network), (Ends{{3003, 1}}));
}

// It moves 400 bytes until 400, a quarter byte/ns until 800 (100 bytes), and the other 500 at full rate: 1300.
TEST(FlowNetwork, ACapacityChangesUnderAFlow) {
  FlowNetwork network({kByteANanosecond});
  network.change_capacity(400, 0, 1, 0.25);
  network.change_capacity(800, 0, 1, 1.0);
  network.start(0, transfer(1000, 1000, {0}));
  EXPECT_EQ(run(network), (Ends{{1300, 0}}));
}

// From 300 to 700 nothing moves: 1000 + 400.
TEST(FlowNetwork, AnOutageWaits) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(1000, 1000, {0}));
  network.change_capacity(300, 0, 1, 0.0);
  network.change_capacity(700, 0, 1, 1.0);
  EXPECT_EQ(run(network), (Ends{{1400, 0}}));
}

TEST(FlowNetwork, OnADeadLinkNothingEverEnds) {
  FlowNetwork network({kByteANanosecond, 0.0});
  network.start(0, transfer(1000, 1000, {0, 1}));
  network.start(0, transfer(1000, 1000, {0}));
  EXPECT_EQ(run(network), (Ends{{1000, 1}}));
  EXPECT_EQ(network.active(), 1);
  EXPECT_EQ(network.next_event(), std::nullopt);
}

// More capacity than nominal does not make a flow faster than alone, but two of them fit.
TEST(FlowNetwork, ARaisedCapacityHelpsOnlyWhoShares) {
  FlowNetwork network({kByteANanosecond});
  network.change_capacity(0, 0, 1, 2.0);
  network.start(0, transfer(1000, 1000, {0}));
  network.start(0, transfer(1000, 1000, {0}));
  EXPECT_EQ(run(network), (Ends{{1000, 0}, {1000, 1}}));
}

// A ring over four NICs is one flow of 4000 bytes a NIC in 4000 ns. A message of 1000 bytes crosses NIC 2 from 1000
// on. Each gets half, and the message ends at 3000, when the ring has moved 1000 + 1000. The other 2000 take until
// 5000.
TEST(FlowNetwork, ARingIsHeldByItsSlowestHop) {
  FlowNetwork network({kByteANanosecond, kByteANanosecond, kByteANanosecond, kByteANanosecond});
  network.start(0, transfer(4000, 4000, {0, 1, 2, 3}));
  network.start(1000, transfer(1000, 1000, {2}));
  EXPECT_EQ(run(network), (Ends{{3000, 1}, {5000, 0}}));
  EXPECT_DOUBLE_EQ(network.utilisation(0).bytes, 4000);
  EXPECT_DOUBLE_EQ(network.utilisation(2).bytes, 5000);
  EXPECT_EQ(network.utilisation(0).busy_ns, 5000);
  EXPECT_DOUBLE_EQ(network.utilisation(2).highest_share, 1.0);
}

// The ring is now four flows: three hops end at 4000, the fourth at 5000, and with it the activity.
TEST(FlowNetwork, AnActivityEndsWithItsLastFlow) {
  FlowNetwork network({kByteANanosecond, kByteANanosecond, kByteANanosecond, kByteANanosecond});
  Activity ring;
  ring.duration_ns = 4000;
  for (LinkId nic = 0; nic < 4; ++nic) ring.flows.push_back({uses_of({nic}), 4000});
  network.start(0, ring);
  network.start(1000, transfer(1000, 1000, {2}));
  EXPECT_EQ(run(network), (Ends{{3000, 1}, {5000, 0}}));
  EXPECT_EQ(network.utilisation(0).busy_ns, 4000);
}

// A flow of 1000 bytes uses the link twice, so that its 2000 bytes take 2000 ns, although its duration is 1000.
TEST(FlowNetwork, AFlowOverALinkTwice) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(1000, 1000, {0, 0}));
  EXPECT_EQ(run(network), (Ends{{2000, 0}}));
  EXPECT_DOUBLE_EQ(network.utilisation(0).bytes, 2000);
}

TEST(FlowNetwork, WithoutBytesOrLinksOnlyTheDurationCounts) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, Activity{70, 70, {}});
  network.start(0, transfer(60, 0, {0}));
  network.start(0, transfer(50, 1000, {}));
  network.start(0, transfer(40, 9, {0}, 40));
  network.start(0, Activity{});
  EXPECT_EQ(run(network), (Ends{{0, 4}, {40, 3}, {50, 2}, {60, 1}, {70, 0}}));
  EXPECT_DOUBLE_EQ(network.utilisation(0).bytes, 9);
}

TEST(FlowNetwork, EqualTimesComeById) {
  FlowNetwork network({kByteANanosecond, kByteANanosecond});
  network.start(0, transfer(2000, 2000, {0}));
  network.start(1000, transfer(1000, 1000, {1}));
  network.start(1500, Activity{500, 0, {}});
  Ends ends;
  network.advance(5000, ends);
  EXPECT_EQ(ends, (Ends{{2000, 0}, {2000, 1}, {2000, 2}}));
  EXPECT_EQ(network.now(), 5000);
}

// An activity that begins when another ends does not share with it.
TEST(FlowNetwork, OneAfterTheOtherIsNotShared) {
  FlowNetwork network({kByteANanosecond});
  network.start(0, transfer(1000, 1000, {0}));
  network.start(1000, transfer(1000, 1000, {0}));
  EXPECT_EQ(run(network), (Ends{{1000, 0}, {2000, 1}}));
  EXPECT_DOUBLE_EQ(network.utilisation(0).highest_share, 1.0);
  EXPECT_EQ(network.utilisation(0).busy_ns, 2000);
}

// Links 0 and 1 have two flows each. When a third begins on link 0, only its three flows get new rates: 2 + 2 solved
// when the pairs meet, 3 when the third joins.
TEST(FlowNetwork, OnlyTheFlowsThatAnEventTouchesAreSolved) {
  FlowNetwork network({kByteANanosecond, kByteANanosecond});
  Ends ends;
  for (const LinkId id : {0, 0, 1, 1}) network.start(0, transfer(1000, 1000, {id}));
  network.advance(10, ends);
  EXPECT_EQ(network.counters().solves, 1);  // both pairs at once
  EXPECT_EQ(network.counters().flows_solved, 4);
  network.start(10, transfer(1000, 1000, {0}));
  network.advance(20, ends);
  EXPECT_EQ(network.counters().flows_solved, 4 + 3);
}

// The test stops half way through a flow that is held to half its cap: 1000 ns at half a byte/ns.
TEST(FlowNetwork, UtilisationCountsWhatIsUnderWay) {
  FlowNetwork network({kByteANanosecond, 4 * kByteANanosecond});
  Ends ends;
  network.start(0, transfer(1000, 1000, {0, 1}));
  network.start(0, transfer(1000, 1000, {0}));
  network.advance(1000, ends);
  EXPECT_TRUE(ends.empty());
  EXPECT_DOUBLE_EQ(network.utilisation(0).bytes, 1000);
  EXPECT_DOUBLE_EQ(network.utilisation(1).bytes, 500);
  EXPECT_DOUBLE_EQ(network.utilisation(1).highest_share, 0.125);
  EXPECT_EQ(network.utilisation(1).busy_ns, 1000);
}

TEST(FlowNetwork, MisuseIsABug) {
  FlowNetwork network({kByteANanosecond});
  Ends ends;
  network.advance(100, ends);
  EXPECT_THROW(network.start(99, Activity{}), base::InternalError);
  EXPECT_THROW(network.start(100, Activity{10, 11, {}}), base::InternalError);
  EXPECT_THROW(network.start(100, transfer(10, -1, {0})), base::InternalError);
  EXPECT_THROW(network.start(100, transfer(10, 1, {1})), base::InternalError);
  EXPECT_THROW(network.advance(99, ends), base::InternalError);
  EXPECT_THROW(network.change_capacity(99, 0, 1, 1), base::InternalError);
  EXPECT_THROW(network.change_capacity(100, 0, 2, 1), base::InternalError);
  EXPECT_THROW(network.change_capacity(100, 0, 1, -1), base::InternalError);
  EXPECT_THROW((void)network.utilisation(1), base::InternalError);
  EXPECT_THROW(FlowNetwork({-1.0}), base::InternalError);
}

// Two devices of a node share a NIC of 20 GB/s · 0.8; the trace halves the network at 1 µs. Each sends 16,000 bytes
// at 8 bytes/ns, which take 2000 ns alone and also together until 1000. Then both share 8 bytes/ns, and the other
// 8000 bytes each take 2000 ns.
TEST(FlowNetwork, ATopologyWithATrace) {
  Cluster cluster;
  NodeGroup group;
  group.nodes = 2;
  group.devices_per_node = 2;
  FabricLevel intra;
  intra.name = "PCIe";
  intra.kind = FabricKind::pcie_tree;
  intra.span = 2;
  intra.bandwidth = intra.bandwidth_alone = GBps(30);
  FabricLevel inter = intra;
  inter.name = "fat tree";
  inter.kind = FabricKind::fat_tree;
  inter.span = 4;
  inter.bandwidth = GBps(10);
  inter.bandwidth_alone = GBps(20);
  inter.trace = {{Seconds(1e-6), 0.5, 1.0}};
  group.intra = {intra};
  cluster.groups = {group};
  cluster.inter = {inter};
  const cluster::Topology topology = cluster::nested_topology(cluster);
  FlowNetwork network = flow_network(topology);
  network.start(0, transfer(2000, 16000, topology.route(0, 2)));
  network.start(0, transfer(2000, 16000, topology.route(1, 3)));
  EXPECT_EQ(run(network), (Ends{{3000, 0}, {3000, 1}}));
}

}  // namespace
}  // namespace espalier::sim::flow_network_test
