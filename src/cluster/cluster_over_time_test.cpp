// SPDX-License-Identifier: Apache-2.0
// Tests clusters over time: states replayed by hand, token buckets in closed form, made-up traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/cluster_change.h"

namespace espalier::cluster::cluster_over_time_test {
namespace {

using ::testing::ElementsAre;

Cluster loaded(const std::string& text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().message());
  return cluster.ok() ? *cluster : Cluster{};
}

// There are four nodes of 8. At 0 the two with the highest numbers leave; node:2 returns at 60 s. Device rank:1 takes
// 1.5 times as long from 30 s to 90 s. An event leaves node:0 half of its path to the network, and a trace 0.8 of
// that: 0.4.
TEST(ClusterState, ReplaysWhatHappened) {
  const Cluster c = loaded(
      "{nodes: 4, device: h100-sxm-80gb, capacity: [{time_s: 40, link: \"node:0\", factor: 0.8}], events: ["
      "{time_s: 0, event: leave, target: a, value: 2}, {time_s: 30, event: slow, target: \"rank:1\", value: 1.5},"
      "{time_s: 60, event: join, target: a}, {time_s: 60, event: link, target: \"node:0\", value: 0.5},"
      "{time_s: 90, event: slow, target: \"node:0\", value: 1}]}");
  EXPECT_THAT(change_times(c), ElementsAre(Seconds(0), Seconds(30), Seconds(40), Seconds(60), Seconds(90)));
  EXPECT_THAT(state_at(c, Seconds(0)).away, ElementsAre(2, 3));
  EXPECT_TRUE(state_at(c, Seconds(29)).slow.empty());
  EXPECT_THAT(state_at(c, Seconds(30)).slow, ElementsAre(Slowdown{1, 1.5}));
  EXPECT_THAT(state_at(c, Seconds(59)).capacity, ElementsAre(CapacityFactor{"node:0", 0.8}));
  const ClusterState later = state_at(c, Seconds(60));
  EXPECT_THAT(later.away, ElementsAre(3));
  EXPECT_THAT(later.capacity, ElementsAre(CapacityFactor{"node:0", 0.4}));
  EXPECT_TRUE(state_at(c, Seconds(1e6)).slow.empty());
}

// One replay of all moments equals a replay of each.
TEST(ClusterState, OverTimeIsTheStateOfEachMoment) {
  Cluster c = loaded(
      "{nodes: 16, device: l4, capacity: [{time_s: 40, link: \"node:0\", factor: 0.8}, {time_s: 90, link: \"rank:3\", factor: "
      "0}]}");
  c.events = preemptions(0, 16, Seconds(3600), Seconds(600), Seconds(200), 3);
  const std::vector<Seconds> times = change_times(c);
  const std::vector<ClusterState> states = states_over_time(c);
  ASSERT_EQ(states.size(), times.size());
  ASSERT_GT(times.size(), 50u);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(states[i], state_at(c, times[i])) << times[i].count();
}

// There are 20,000 events. Replaying all earlier ones for each moment would process 200 million.
TEST(ClusterState, OverTimeGrowsWithTheEvents) {
  Cluster c = loaded("{nodes: 4, device: l4}");
  for (int k = 0; k < 20'000; ++k)
    c.events.push_back({Seconds(k), k % 2 == 0 ? ClusterEventKind::leave : ClusterEventKind::join, "node:1", 1.0, ""});
  const std::vector<ClusterState> states = states_over_time(c);
  EXPECT_THAT(states[18'000].away, ElementsAre(1));
  EXPECT_TRUE(states[18'001].away.empty());
}

// A node whose path lets nothing through counts as away, and so does one with such a device. The last present node
// stays, alone.
TEST(ClusterState, NodesBehindLostLinksAreAway) {
  const Cluster c = loaded("{nodes: 3, devices_per_node: 2, device: l4}");
  ClusterState state;
  state.capacity = {{"node:1", 1e-7}, {"rank:4", 0.5}};  // less than a millionth counts as zero
  ClusterState found = without_lost_links(c, state);
  EXPECT_THAT(found.away, ElementsAre(1));
  EXPECT_THAT(found.capacity, ElementsAre(CapacityFactor{"rank:4", 0.5}));
  state.capacity = {{"node:1", 1e-4}, {"rank:3", 1e-4}};  // both on the path of one device
  EXPECT_THAT(without_lost_links(c, state).away, ElementsAre(1));
  state.capacity = {{"node:1", 0.0}, {"rank:4", 0.0}};
  EXPECT_THAT(without_lost_links(c, state).away, ElementsAre(1, 2));
  state.away = {0};
  found = without_lost_links(c, state);
  EXPECT_THAT(found.away, ElementsAre(0, 2));
  EXPECT_TRUE(found.capacity.empty());
}

// The rate is 10 Gb/s = 1.25 GB/s while tokens last, then 1.25 Gb/s = 0.15625 GB/s. The bucket has 4.5 Tb = 562.5 GB.
// At full rate tokens flow out at 1.09375 GB/s, for 514.2857… s, in which 642.857… GB pass. (EC2 c5.xlarge: 533 s at
// 9.689 Gb/s, 1.254 after, data of Uta et al., NSDI 2020.)
TEST(TokenBuckets, ClosedForm) {
  const TokenBucket bucket{"a-b", GBps(1.25), GBps(0.15625), Bytes(562'500'000'000)};
  const TokenState full = full_bucket(bucket);
  EXPECT_NEAR(full_rate_lasts(bucket, full).count(), 514.285714, 1e-6);
  EXPECT_DOUBLE_EQ(time_to_move(bucket, full, 125e9).count(), 100.0);
  EXPECT_NEAR(time_to_move(bucket, full, 642.857142857e9 + 15.625e9).count(), 514.285714 + 100.0, 1e-5);
  EXPECT_DOUBLE_EQ(time_to_move(bucket, {0.0}, 15.625e9).count(), 100.0);
  EXPECT_EQ(highest_rate(bucket, full), GBps(1.25));
  EXPECT_EQ(highest_rate(bucket, {0.0}), GBps(0.15625));
  const TokenState half = after(bucket, full, GBps(1.25), Seconds(257.142857142857));
  EXPECT_NEAR(half.tokens, 281.25e9, 1.0);
  EXPECT_DOUBLE_EQ(after(bucket, half, GBps(2), Seconds(1e6)).tokens, 0.0);
  EXPECT_DOUBLE_EQ(after(bucket, {0.0}, BytesPerSecond(0), Seconds(100)).tokens, 15.625e9);
  EXPECT_DOUBLE_EQ(after(bucket, half, BytesPerSecond(0), Seconds(1e9)).tokens, 562.5e9);
  EXPECT_TRUE(std::isinf(full_rate_lasts({"a-b", GBps(1), GBps(1), Bytes(5)}, {5}).count()));
}

// A step moves 50 GB: 43.75 GB of tokens. A pause of 280 s restores 43.75 GB: the bucket stays full, and the step
// takes 40 s. A pause of 64 s restores 10 GB of tokens. They last 9.142857 s for 11.428571 GB; the other 38.571429 GB
// take 246.857143 s. After many steps, a simulation gives the same.
TEST(TokenBuckets, InTheLongRun) {
  const TokenBucket bucket{"a-b", GBps(1.25), GBps(0.15625), Bytes(562'500'000'000)};
  EXPECT_DOUBLE_EQ(lasting_time_to_move(bucket, 50e9, Seconds(280)).count(), 40.0);
  EXPECT_NEAR(lasting_time_to_move(bucket, 50e9, Seconds(64)).count(), 9.142857 + 246.857143, 1e-5);
  TokenState state = full_bucket(bucket);
  Seconds takes;
  for (int step = 0; step < 40; ++step) {
    takes = time_to_move(bucket, state, 50e9);
    state = after(bucket, state, bucket.full, takes);
    state = after(bucket, state, BytesPerSecond(0), Seconds(64));
  }
  EXPECT_NEAR(takes.count(), lasting_time_to_move(bucket, 50e9, Seconds(64)).count(), 1e-6);
}

TEST(MadeUpTraces, DiurnalIsNominalAtNight) {
  const CapacityTrace day = diurnal("a-b", Seconds(86400), Seconds(86400), 0.6, 24);
  ASSERT_EQ(day.changes.size(), 24u);
  EXPECT_DOUBLE_EQ(day.changes[12].at.count(), 43200.0);
  EXPECT_NEAR(day.changes[0].bandwidth_factor, 1.0 - 0.3 * (1.0 - std::cos(M_PI / 24)), 1e-12);
  EXPECT_NEAR(day.changes[11].bandwidth_factor, day.changes[12].bandwidth_factor, 1e-12);
  EXPECT_GT(day.changes[11].bandwidth_factor, 0.4);
  EXPECT_LT(day.changes[11].bandwidth_factor, 0.41);
}

TEST(MadeUpTraces, SeedsDecide) {
  const auto trace = [](std::uint64_t seed) {
    return bursty_neighbour("a-b", Seconds(3600), Seconds(60), Seconds(20), 0.5, seed);
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
  double busy = 0;
  const CapacityTrace one = bursty_neighbour("a-b", Seconds(1e6), Seconds(60), Seconds(20), 0.5, 7);
  for (std::size_t i = 0; i + 1 < one.changes.size(); ++i) {
    EXPECT_LT(one.changes[i].at, one.changes[i + 1].at);
    if (one.changes[i].bandwidth_factor == 0.5) busy += (one.changes[i + 1].at - one.changes[i].at).count();
  }
  EXPECT_NEAR(busy / 1e6, 0.25, 0.02);  // 20 of 80 s
}

TEST(MadeUpTraces, FailuresByHand) {
  EXPECT_EQ(failing_nic(3, 8, Seconds(10), Seconds(5)), (CapacityTrace{"node:3", {{Seconds(10), 0.875}, {Seconds(15), 1.0}}}));
  EXPECT_EQ(flapping("a-b", Seconds(1), Seconds(2), Seconds(3), 2),
            (CapacityTrace{"a-b", {{Seconds(1), 0}, {Seconds(3), 1}, {Seconds(6), 0}, {Seconds(8), 1}}}));
  const auto pod = pod_loss(4, 2, Seconds(100), Seconds(50));
  ASSERT_EQ(pod.size(), 4u);
  EXPECT_EQ(pod[1], (ClusterEvent{Seconds(100), ClusterEventKind::leave, "node:5", 1.0, ""}));
  EXPECT_EQ(pod[2], (ClusterEvent{Seconds(150), ClusterEventKind::join, "node:4", 1.0, ""}));
}

// 16 spot nodes are away a quarter of the time. The events can be replayed: a node that leaves is present.
TEST(MadeUpTraces, PreemptionsCanBeReplayed) {
  Cluster c = loaded("{nodes: 16, device: l4}");
  c.events = preemptions(0, 16, Seconds(36000), Seconds(3600), Seconds(1200), 11);
  EXPECT_EQ(c.events, preemptions(0, 16, Seconds(36000), Seconds(3600), Seconds(1200), 11));
  double away = 0;
  for (int t = 6000; t < 36000; t += 60) away += static_cast<double>(state_at(c, Seconds(t)).away.size());
  EXPECT_NEAR(away / (500 * 16), 0.25, 0.08);
}

}  // namespace
}  // namespace espalier::cluster::cluster_over_time_test
