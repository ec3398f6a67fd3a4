// SPDX-License-Identifier: Apache-2.0
// Tests links that are directed, flap, or run out of tokens, against closed forms by hand. The clusters are read from
// files, so the test includes the path from a cluster file to the flow network.
#include <gtest/gtest.h>

#include <cmath>

#include "cluster/topology_builders.h"
#include "espalier/cluster_change.h"
#include "sim/topology_network.h"

namespace espalier::sim::changing_links_test {
namespace {

using Ends = std::vector<FinishedActivity>;

Activity transfer(std::int64_t duration, std::int64_t bytes, const std::vector<LinkId>& links) {
  return {duration, 0, {{uses_of(links), bytes}}};
}

Ends run(FlowNetwork& network) {
  Ends ends;
  for (auto next = network.next_event(); next; next = network.next_event()) network.advance(*next, ends);
  return ends;
}

Cluster loaded(const std::string& text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().message());
  return cluster.ok() ? *cluster : Cluster{};
}

cluster::Topology topology_of(const Cluster& cluster) {
  auto topology = cluster::topology_of(cluster);
  EXPECT_TRUE(topology.ok()) << (topology.ok() ? "" : topology.error().message());
  return std::move(topology).value();
}

// A full bucket of 7000 tokens at 8 bytes/ns, 1 byte/ns sustained, lasts 7000 / 7 = 1000 ns, for 8000 bytes. The
// ninth thousand takes another 1000 ns: 2000. After 3500 ns without traffic there are 3500 tokens. They last 500 ns,
// for 4000 of the second 5000 bytes; the others take 1000 ns.
TEST(TokenBucketLink, RunsEmptyAndFillsAgain) {
  FlowNetwork network({8e9});
  network.add_bucket(0, 8e9, 1e9, 7000);
  network.start(0, transfer(1125, 9000, {0}));
  EXPECT_EQ(run(network), (Ends{{2000, 0}}));
  network.start(5500, transfer(625, 5000, {0}));
  EXPECT_EQ(run(network), (Ends{{7000, 1}}));
}

// Two flows of 8000 bytes share 8 bytes/ns: 4 each for 1000 ns, then half a byte each. The remaining 4000 of each
// take 8000 ns. A third flow over a link without a bucket is not delayed.
TEST(TokenBucketLink, IsSharedFairly) {
  FlowNetwork network({8e9, 8e9});
  network.add_bucket(0, 8e9, 1e9, 7000);
  network.start(0, transfer(1000, 8000, {0}));
  network.start(0, transfer(1000, 8000, {0}));
  network.start(0, transfer(4000, 8000, {1}));
  EXPECT_EQ(run(network), (Ends{{4000, 2}, {9000, 0}, {9000, 1}}));
}

// At or below the sustained rate no token is spent, however many bytes were moved before.
TEST(TokenBucketLink, LastsForEverAtTheSustainedRate) {
  FlowNetwork network({8e9});
  network.add_bucket(0, 8e9, 1e9, 700);
  network.start(0, transfer(1'000'000, 1'000'000, {0}));
  EXPECT_EQ(run(network), (Ends{{1'000'000, 0}}));
  network.start(1'000'000, transfer(100, 800, {0}));
  EXPECT_EQ(run(network), (Ends{{1'000'100, 1}}));
}

// The network equals the closed form step by step: bytes and pauses are random, times exact to the nanosecond
// (rounded up at each step).
TEST(TokenBucketLink, EqualsTheClosedForm) {
  const TokenBucket bucket{"a-b", GBps(1.25), GBps(0.15625), Bytes(20'000)};
  FlowNetwork network({1.25e9});
  network.add_bucket(0, 1.25e9, 0.15625e9, 20'000);
  TokenState state = full_bucket(bucket);
  std::int64_t at = 0;
  std::uint64_t random = 12345;
  for (int step = 0; step < 200; ++step) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    const auto bytes = static_cast<std::int64_t>(1000 + (random >> 33) % 60'000);
    const auto pause = static_cast<std::int64_t>((random >> 20) % 200'000);
    network.start(at, transfer(static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / 1.25)), bytes, {0}));
    const Ends ends = run(network);
    ASSERT_EQ(ends.size(), 1u);
    const Seconds takes = time_to_move(bucket, state, static_cast<double>(bytes));
    EXPECT_NEAR(static_cast<double>(ends[0].at_ns - at), takes.count() * 1e9, 8.0) << step;
    state = after(bucket, state, bucket.full, takes);
    state = after(bucket, state, BytesPerSecond(0), Seconds(static_cast<double>(pause) * 1e-9));
    at = ends[0].at_ns + pause;
  }
}

constexpr const char* kSites =
    "groups: [{nodes: 2, devices_per_node: 1, device: h100-sxm-80gb}, {nodes: 2, devices_per_node: 1, device: h100-sxm-80gb}]\n";

// There is 1 byte/ns from a to b and half of that back. The nodes share both lines.
TEST(ChangingLinks, Directed) {
  const cluster::Topology topology =
      topology_of(loaded(std::string(kSites) + "links: [{from: a, to: b, bandwidth: 8Gb/s, latency: 0s},"
                                               " {from: b, to: a, bandwidth: 4Gb/s, latency: 0s}]"));
  EXPECT_EQ(topology.link_name(0), "a-b");
  FlowNetwork network = flow_network(topology);
  network.start(0, transfer(1000, 1000, topology.route(0, 2)));
  network.start(0, transfer(1000, 1000, topology.route(1, 3)));
  network.start(0, transfer(2000, 1000, topology.route(2, 0)));
  EXPECT_EQ(run(network), (Ends{{2000, 0}, {2000, 1}, {2000, 2}}));
}

// Two transfers share no link if each pair of nodes, or each node, has the rate to itself. If they leave from one
// node, they share that node's rate.
TEST(ChangingLinks, SharedByWhom) {
  const auto ends = [](const char* sharing, std::int64_t from, std::int64_t to) {
    const cluster::Topology topology = topology_of(loaded(
        std::string(kSites) + "links: [{from: a, to: b, bandwidth: 8Gb/s, latency: 0s, both: true, sharing: " + sharing + "}]"));
    FlowNetwork network = flow_network(topology);
    network.start(0, transfer(1000, 1000, topology.route(0, 2)));
    network.start(0, transfer(1000, 1000, topology.route(from, to)));
    return run(network);
  };
  EXPECT_EQ(ends("line", 1, 3), (Ends{{2000, 0}, {2000, 1}}));
  EXPECT_EQ(ends("node", 1, 3), (Ends{{1000, 0}, {1000, 1}}));
  EXPECT_EQ(ends("node", 0, 3), (Ends{{2000, 0}, {2000, 1}}));
  EXPECT_EQ(ends("node", 1, 2), (Ends{{2000, 0}, {2000, 1}}));
  EXPECT_EQ(ends("node_pair", 0, 3), (Ends{{1000, 0}, {1000, 1}}));
  EXPECT_EQ(ends("node_pair", 0, 2), (Ends{{2000, 0}, {2000, 1}}));
}

// The link is down from 2 to 5 ms and from 7 to 10 ms. 4 MB at 1 byte/ns from 0 run for 2 ms, and for 2 ms from 5 to
// 7: done at 7 ms. A transfer that needs 5 ms ends at 11 ms.
TEST(ChangingLinks, Flapping) {
  Cluster cluster = loaded(std::string(kSites) + "links: [{from: a, to: b, bandwidth: 8Gb/s, latency: 0s, both: true}]");
  cluster.capacity = {flapping("a-b", Seconds(2e-3), Seconds(3e-3), Seconds(2e-3), 2)};
  const cluster::Topology topology = topology_of(cluster);
  FlowNetwork first = flow_network(topology);
  first.start(0, transfer(4'000'000, 4'000'000, topology.route(0, 2)));
  EXPECT_EQ(run(first), (Ends{{7'000'000, 0}}));
  FlowNetwork second = flow_network(topology);
  second.start(0, transfer(5'000'000, 5'000'000, topology.route(0, 2)));
  second.start(0, transfer(5'000'000, 5'000'000, topology.route(2, 0)));  // the other direction does not flap
  EXPECT_EQ(run(second), (Ends{{5'000'000, 1}, {11'000'000, 0}}));
}

// A link between groups has a bucket, read from the file: 8 Gb/s until 7 Kb·1000 … = 7000 bytes are gone, 1 Gb/s
// after.
TEST(ChangingLinks, TokenBucketOfAFile) {
  const cluster::Topology topology = topology_of(
      loaded(std::string(kSites) + "links: [{from: a, to: b, bandwidth: 64Gb/s, latency: 0s, both: true}]\n"
                                   "capacity: {link: a-b, token_bucket: {full: 64Gb/s, sustained: 8Gb/s, bucket: 56Kb}}"));
  FlowNetwork network = flow_network(topology);
  network.start(0, transfer(1125, 9000, topology.route(0, 2)));
  EXPECT_EQ(run(network), (Ends{{2000, 0}}));
}

// One of eight interfaces of a node is lost while each of its eight devices sends equally much to the other node. At
// best the seven others share its load evenly: 8/7 of the time. At worst two devices are on one interface: twice the
// time. Any re-routing lies in between.
TEST(ChangingLinks, SevenOfEightRails) {
  const auto slowest = [](const std::string& capacity) {
    const cluster::Topology topology = topology_of(loaded("{nodes: 2, device: h100-sxm-80gb, capacity: " + capacity + "}"));
    FlowNetwork network = flow_network(topology);
    const double rate = cluster::route_bandwidth(cluster::nested_topology(loaded("{nodes: 2, device: h100-sxm-80gb}")), 0, 8);
    const auto bytes = static_cast<std::int64_t>(rate * 0.007);  // takes 7 ms
    for (std::int64_t i = 0; i < 8; ++i) network.start(0, transfer(7'000'000, bytes, topology.route(i, 8 + i)));
    return run(network).back().at_ns;
  };
  EXPECT_EQ(slowest("[]"), 7'000'000);
  EXPECT_NEAR(static_cast<double>(slowest("[{time_s: 0, link: \"node:0\", factor: 0.875}]")), 8'000'000.0, 2.0);
  EXPECT_NEAR(
      static_cast<double>(slowest("[{time_s: 0, link: \"rank:0\", factor: 0.5}, {time_s: 0, link: \"rank:1\", factor: 0.5}]")),
      14'000'000.0, 4.0);
}

// Paths have a site in between, so both lines are crossed. The interfaces of a group of one node limit its outgoing
// traffic.
TEST(ChangingLinks, WaysThroughSites) {
  const cluster::Topology topology =
      topology_of(loaded("groups: [{nodes: 1, devices_per_node: 2, device: l4, site: x, inter_node: {bandwidth: 10Gb/s, "
                         "nics_per_node: 1, efficiency: 1}},"
                         " {nodes: 2, devices_per_node: 1, device: h100-sxm-80gb, site: y}]\n"
                         "links: [{from: x, to: y, bandwidth: 100Gb/s, latency: 1ms, both: true}]"));
  EXPECT_DOUBLE_EQ(cluster::route_latency(topology, 0, 2), 1e-3 + cluster::route_latency(topology, 2, 3) / 2);
  FlowNetwork network = flow_network(topology);
  network.start(0, transfer(800, 1000, topology.route(0, 2)));
  network.start(0, transfer(800, 1000, topology.route(1, 3)));
  EXPECT_EQ(run(network), (Ends{{1600, 0}, {1600, 1}}));
}

}  // namespace
}  // namespace espalier::sim::changing_links_test
