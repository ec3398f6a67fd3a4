// SPDX-License-Identifier: Apache-2.0
// A node of 4 devices with links of 10 GB/s (8 reached) and host memory of 1,000 GB/s (460 for all, 115 per device).
// 10⁹ elements have 4 bytes of gradient, 4 + 8 of states and 2 of parameter: down 0.5 s, up 0.25 s, update (4 + 24
// + 2)·10⁹ / 115·10⁹ = 0.2609 s. Each test describes its copies during passes.
#include "cost/offload.h"

#include <gtest/gtest.h>

#include "cost/chunk_sum.h"
#include "cost/price.h"
#include "cost/test_problem.h"
#include "plan/engine.h"

namespace espalier::cost::offload_test {
namespace {

NodeGroup node() {
  NodeGroup group;
  group.devices_per_node = 4;
  group.host = {Bytes(std::int64_t{1} << 40), GBps(1000), GBps(10), {}};
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

// Without overlap they run one after the other. Overlapped, the step waits for the transfers that the backward pass
// and the update leave exposed.
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

// The host holds all 2 + 4 + 12 bytes of an element. It reads what it had to, and gradients again for their norm: (30
// + 4)·10⁹ / 115·10⁹.
TEST(Offload, ParametersTakeGradientsAndStatesAlong) {
  Strategy s;
  s.offload = Offload::parameters;
  const StaticMemory there = state_memory(kElements, states(), s);
  EXPECT_EQ(there.host, 18'000'000'000);
  EXPECT_EQ(there.total(), 0);
  const HostUpdate update = host_update(host_rates(node()), states(), kElements, s);
  EXPECT_EQ(update.down, 0.0);
  EXPECT_EQ(update.up, 0.0);
  EXPECT_NEAR(update.update, 34.0 / 115, 1e-12);
  EXPECT_EQ(update_bytes(EngineModel{}, states(), kElements, s), 0.0);
}

TEST(Offload, WhatEachValueMoves) {
  using enum Offload;
  for (const Offload o : {none, optimizer, activations, optimizer_activations, parameters, parameters_activations}) {
    EXPECT_EQ(offloads_optimizer(o), o != none && o != activations);
    EXPECT_EQ(offloads_activations(o), o == activations || o == optimizer_activations || o == parameters_activations);
    EXPECT_EQ(offloads_parameters(o), o == parameters || o == parameters_activations);
    EXPECT_EQ(copies_in_passes(o), o != none && o != optimizer);
  }
}

/// Returns a block of 1 ms and 2 ms that keeps 16 MB, 4 MB recomputed, and has 4 million elements.
LayerCost layer() {
  LayerCost l;
  l.forward.compute_ns = 1'000'000;
  l.backward.compute_ns = 2'000'000;
  l.saved = l.hosted = {16'000'000, 8'000'000, 4'000'000};
  l.dense_parameters = 4'000'000;
  return l;
}

HostCopies copies_of(Offload offload, RecomputeKind how, std::int32_t shard = 1, const ZeroTime& zero = {},
                     const EngineModel& engine = {}) {
  Strategy s;
  s.offload = offload;
  s.dp = s.shard = shard;
  s.zero = shard > 1 ? ZeroStage::parameters : ZeroStage::none;
  return host_copies(host_rates(node()), engine, states(), layer(), zero, s, how);
}

// 16 MB at 8 GB/s take 2 ms: the forward pass hides one of them, the backward pass both. Recomputed, it is 0.5 ms.
TEST(HostCopies, OfActivationsBesideALayer) {
  const HostCopies whole = copies_of(Offload::activations, RecomputeKind::none);
  EXPECT_EQ(whole.forward.exposed_ns, 1'000'000);
  EXPECT_EQ(whole.forward.hidden_ns, 1'000'000);
  EXPECT_EQ(whole.backward.exposed_ns, 0);
  EXPECT_EQ(whole.backward.hidden_ns, 2'000'000);
  EXPECT_EQ(whole.last_down_ns, 1'000'000);  // up to the layer's own time
  EXPECT_EQ(whole.last_up_ns, 2'000'000);
  EXPECT_EQ(whole.first_up_ns + whole.first_down_ns, 0);
  const HostCopies again = copies_of(Offload::activations, RecomputeKind::full);
  EXPECT_EQ(again.forward.exposed_ns, 0);
  EXPECT_EQ(again.last_up_ns, 500'000);
  EXPECT_EQ(copies_of(Offload::optimizer, RecomputeKind::none).forward, PhaseTime{});
}

// DeepSpeed copies checkpoints of 4 MB while the device waits, 0.5 ms each way.
TEST(HostCopies, OfCheckpointsInTheOpen) {
  EngineModel engine;
  engine.runs.offload_activations = ActivationOffload::checkpoints;
  const HostCopies c = copies_of(Offload::activations, RecomputeKind::full, 1, {}, engine);
  EXPECT_EQ(c.forward.exposed_ns, 500'000);
  EXPECT_EQ(c.backward.exposed_ns, 500'000);
  EXPECT_EQ(c.forward.hidden_ns + c.backward.hidden_ns + c.last_down_ns + c.last_up_ns, 0);
}

// 8 MB of parameters take 1 ms up and 16 MB of gradients 2 ms down, at the same time; four ranks take a quarter of
// it.
TEST(HostCopies, OfParametersAndGradientsBesideALayer) {
  const HostCopies one = copies_of(Offload::parameters, RecomputeKind::none);
  EXPECT_EQ(one.forward.exposed_ns, 0);
  EXPECT_EQ(one.forward.hidden_ns, 1'000'000);
  EXPECT_EQ(one.backward.hidden_ns, 2'000'000);
  EXPECT_EQ(one.first_up_ns, 1'000'000);
  EXPECT_EQ(one.first_down_ns, 2'000'000);
  EXPECT_EQ(one.last_up_ns, 1'000'000);
  EXPECT_EQ(copies_of(Offload::parameters, RecomputeKind::none, 4).forward.hidden_ns, 250'000);
  // With activations, 1 + 2 ms go up in the backward pass, whose 2 ms hide as much. ZeRO traffic that it waits for
  // hides the rest.
  EXPECT_EQ(copies_of(Offload::parameters_activations, RecomputeKind::none).backward.exposed_ns, 1'000'000);
  ZeroTime zero;
  zero.backward.exposed_ns = 600'000;
  EXPECT_EQ(copies_of(Offload::parameters_activations, RecomputeKind::none, 1, zero).backward.exposed_ns, 400'000);
}

// An expert is on 2 of 4 data ranks whose shards are of 2. Each instance has one of its replicas, which holds it
// whole (plan/expert_shard.h). It moves twice as much as one instance of 4, for experts as for dense weights.
TEST(HostCopies, OfExpertsByInstance) {
  LayerCost experts = layer();
  ParameterElements elements;
  elements.expert = 1'000'000;
  experts.set_elements(elements);
  Strategy s;
  s.offload = Offload::parameters;
  s.zero = ZeroStage::parameters;
  s.dp = 4;
  s.ep = 2;
  const auto up_ns = [&](std::int32_t shard) {
    s.shard = shard;
    return host_copies(host_rates(node()), EngineModel{}, states(), experts, {}, s, RecomputeKind::none).first_up_ns;
  };
  EXPECT_GT(up_ns(4), 0);
  EXPECT_EQ(up_ns(2), 2 * up_ns(4));
}

/// Prices three blocks of 65,536 ns forward that keep 640,000 bytes (test_problem.h), as a chunk by itself; the link
/// reaches 8 GB/s.
Costs three_blocks(Offload offload, std::int32_t recomputed = 0) {
  Cluster cluster = test::round_cluster(1);
  cluster.groups.front().host = {Bytes(std::int64_t{1} << 40), GBps(1000), GBps(10), {}};
  const Model model = test::model_of(test::mlp(), 3);
  const CostContext context(model, cluster, test::tokens(1000), test::plain_engine("generic"));
  Strategy s;
  s.offload = offload;
  if (recomputed > 0) s.recompute = {RecomputeKind::full, recomputed, {}};
  const Schedule schedule;
  std::vector<LayerCost> layers;
  layer_costs(context, s, 1, 1, layers);
  const SplitTable split = split_for(model, context.workload.training, *context.engine, 1);
  ProgramStructure structure;
  structure_for(model, s, schedule, split, structure);
  PriceScratch scratch;
  Costs costs;
  price(context, structure, s, split, layers, scratch, costs);
  return costs;
}

// The copies of 80,000 ns form a line of two machines with the blocks: 2·80,000 + 65,536 + 80,000.
TEST(HostCopies, ThreeBlocksWaitForTheirLink) {
  const Costs here = three_blocks(Offload::none), there = three_blocks(Offload::activations);
  const WorkId forward(0);
  EXPECT_EQ(here.works[forward].time.duration_ns(), 3 * 65'536);
  EXPECT_EQ(there.works[forward].time.duration_ns(), 3 * 80'000 + 65'536);
  EXPECT_EQ(there.works[forward].time.hidden_ns, 3 * 65'536);
  // Only two blocks on their way stay on the device; the host holds all three.
  EXPECT_EQ(here.works[forward].memory.before.count(), 3 * 640'000);
  EXPECT_EQ(there.works[forward].memory.before.count(), 0);
  EXPECT_EQ(there.stages[StageId(0)].memory.host, 3 * 640'000);
  EXPECT_EQ(there.works[forward].memory.during.count(), 2 * 640'000 + 128'000 * 4);
  // Recomputed blocks copy their inputs of 128,000 bytes, 16,000 ns; nothing overlaps the last one.
  const Costs again = three_blocks(Offload::activations, 3);
  EXPECT_EQ(again.stages[StageId(0)].memory.host, 3 * 128'000);
  EXPECT_EQ(again.works[forward].time.duration_ns(), 3 * 65'536 + 16'000);
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
}  // namespace espalier::cost::offload_test
