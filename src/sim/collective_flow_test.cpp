// SPDX-License-Identifier: Apache-2.0
// Compares loads of collectives on two nodes of four devices with counts by hand.
#include "sim/collective_flow.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cluster/topology_builders.h"

namespace espalier::sim {
namespace {

cluster::Topology two_nodes() {
  const Result<Cluster> cluster = load_cluster(
      "{nodes: 2, devices_per_node: 4, device: h100-sxm-80gb, "
      "inter_node: {nics_per_node: 4, bandwidth: 400Gb/s, name: rails}}",
      "test");
  return cluster::nested_topology(*cluster);
}

std::map<std::string, double> bytes_of(const cluster::Topology& topology, const Flow& flow) {
  std::map<std::string, double> bytes;
  for (const solve::FlowLink& use : flow.uses)
    bytes[topology.link_name(use.link)] += use.weight * static_cast<double>(flow.bytes);
  return bytes;
}

// There are four rings of 250 bytes a hop. Each device leaves its node in one ring and sends to its neighbour in the
// other three.
TEST(CollectiveFlow, ARingThroughTwoNodes) {
  const cluster::Topology topology = two_nodes();
  const Flow ring = ring_flow(topology, {0, 1, 2, 3, 4, 5, 6, 7}, 1000);
  EXPECT_EQ(ring.bytes, 250);
  const std::map<std::string, double> bytes = bytes_of(topology, ring);
  EXPECT_EQ(bytes.size(), 32u);
  for (const std::string rank : {"rank:0", "rank:3", "rank:6"}) {
    EXPECT_DOUBLE_EQ(bytes.at(rank + " rails out"), 250);
    EXPECT_DOUBLE_EQ(bytes.at(rank + " rails in"), 250);
    EXPECT_DOUBLE_EQ(bytes.at(rank + " NVSwitch out"), 750);
    EXPECT_DOUBLE_EQ(bytes.at(rank + " NVSwitch in"), 750);
  }
}

// With one member a node, its NIC carries everything. In one node no NIC is used, and each port carries everything.
TEST(CollectiveFlow, RingsOfOneMemberANodeAndInOneNode) {
  const cluster::Topology topology = two_nodes();
  const Flow rail = ring_flow(topology, {1, 5}, 1000);
  EXPECT_EQ(rail.bytes, 1000);
  EXPECT_EQ(bytes_of(topology, rail),
            (std::map<std::string, double>{
                {"rank:1 rails out", 1000}, {"rank:1 rails in", 1000}, {"rank:5 rails out", 1000}, {"rank:5 rails in", 1000}}));
  const Flow inside = ring_flow(topology, {0, 1, 2, 3}, 1000);
  EXPECT_EQ(inside.bytes, 1000);
  EXPECT_DOUBLE_EQ(bytes_of(topology, inside).at("rank:2 NVSwitch in"), 1000);
}

// A rank has 800 bytes, 100 for each of eight: 4 · 100 leave the node, 3 · 100 stay.
TEST(CollectiveFlow, AnExchangeBetweenTwoNodes) {
  const cluster::Topology topology = two_nodes();
  const Flow exchange = exchange_flow(topology, {0, 1, 2, 3, 4, 5, 6, 7}, 800);
  EXPECT_EQ(exchange.bytes, 400);
  const std::map<std::string, double> bytes = bytes_of(topology, exchange);
  EXPECT_DOUBLE_EQ(bytes.at("rank:5 rails in"), 400);
  EXPECT_DOUBLE_EQ(bytes.at("rank:5 NVSwitch out"), 300);
}

TEST(CollectiveFlow, AGroupOfOneMovesNothing) {
  EXPECT_TRUE(ring_flow(two_nodes(), {3}, 1000).uses.empty());
  EXPECT_TRUE(exchange_flow(two_nodes(), {3}, 1000).uses.empty());
}

}  // namespace
}  // namespace espalier::sim
