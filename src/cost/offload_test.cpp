// SPDX-License-Identifier: Apache-2.0
// A node of 4 devices, links of 10 GB/s (8 reached), host memory of 1,000 GB/s (460 for all, 115 a device). 10⁹ elements with 4 bytes of gradient,
// 4 + 8 of states and 2 of parameter: down 0.5 s, up 0.25 s, update (4 + 24 + 2)·10⁹ / 115·10⁹ = 0.2609 s.
#include "cost/offload.h"

#include <gtest/gtest.h>

#include "cost/chunk_sum.h"

namespace espalier::cost {
namespace {

NodeGroup node() {
  NodeGroup group;
  group.devices_per_node = 4;
  group.host = {Bytes(std::int64_t{1} << 40), GBps(1000), GBps(10)};
  return group;
}

constexpr ParameterElements kElements{1'000'000'000, 0};

Strategy offloaded() {
  Strategy s;
  s.offload = Offload::optimizer;
  return s;
}

StatePolicy states() {
  StatePolicy p;
  p.parameter = 2;
  p.gradient = 4;
  p.master = 4;
  p.optimizer = 8;
  return p;
}

TEST(Offload, SecondsOfAShard) {
  const HostUpdate whole = host_update(host_rates(node()), states(), kElements, offloaded());
  EXPECT_DOUBLE_EQ(whole.down, 0.5);
  EXPECT_DOUBLE_EQ(whole.up, 0.25);
  EXPECT_NEAR(whole.update, 30.0 / 115, 1e-12);
  Strategy s = offloaded();
  s.dp = s.shard = 4;
  s.zero = ZeroStage::optimizer;
  EXPECT_DOUBLE_EQ(host_update(host_rates(node()), states(), kElements, s).down, 0.125);
  s.offload = Offload::none;
  EXPECT_EQ(host_update(host_rates(node()), states(), kElements, s).down, 0.0);
}

// In the open one after the other; overlapped what the backward pass and the update leave of the ways.
TEST(Offload, WhatTheStepWaitsFor) {
  EngineModel engine;
  const HostUpdate host{0.5, 0.3, 0.25};
  PhaseTime open;
  Nanoseconds host_work{};
  add_host_update(host, engine, 400'000'000, open, host_work);
  EXPECT_EQ(open.exposed_ns, 750'000'000);
  EXPECT_EQ(open.compute_ns, 300'000'000);
  EXPECT_EQ(host_work.count(), 300'000'000);
  EXPECT_EQ(least_host_ns(host, engine), 1'050'000'000);
  engine.communication.overlaps_offload = true;
  PhaseTime beside;
  add_host_update(host, engine, 400'000'000, beside, host_work);
  EXPECT_EQ(beside.exposed_ns, 100'000'000);  // 0.5 − 0.4 of the way down; the way up hides behind the update
  EXPECT_EQ(beside.hidden_ns, 650'000'000);
  EXPECT_EQ(least_host_ns(host, engine), 300'000'000);
}

TEST(Offload, StatesLieInHostMemoryAndTheDeviceComputesTheNorm) {
  const StaticMemory there = state_memory(kElements, states(), offloaded()), here = state_memory(kElements, states(), Strategy{});
  EXPECT_EQ(there.host, 12'000'000'000);
  EXPECT_EQ(there.optimizer, 0);
  EXPECT_EQ(here.optimizer, 12'000'000'000);
  EXPECT_EQ(here.host, 0);
  EXPECT_EQ(there.total() + there.host, here.total());
  EngineModel engine;
  EXPECT_DOUBLE_EQ(update_bytes(engine, states(), kElements, offloaded()), 4e9);
}

TEST(Offload, HostsHoldWhatTheirDevicesPutThere) {
  Cluster cluster;
  cluster.groups = {node()};
  Costs costs;
  costs.stages.add(StageCost{});
  EXPECT_TRUE(host_fits(cluster, costs));
  costs.stages[StageId(0)].memory.host = (std::int64_t{1} << 40) / 4;
  EXPECT_TRUE(host_fits(cluster, costs));
  costs.stages[StageId(0)].memory.host += 1;
  EXPECT_FALSE(host_fits(cluster, costs));
  EXPECT_EQ(host_need(cluster, costs).bytes, (std::int64_t{1} << 40) + 4);
  EXPECT_EQ(host_need(cluster, costs).memory, std::int64_t{1} << 40);
}

}  // namespace
}  // namespace espalier::cost
