// SPDX-License-Identifier: Apache-2.0
// Tests by hand, one layer kind at a time, what moves. Also tests against all permutations that a new plan is placed
// where it moves least.
#include "adapt/move.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "adapt/settle.h"
#include "adapt/test_jobs.h"
#include "plan/engine.h"

namespace espalier::adapt::move_test {
namespace {

constexpr const char* kFour = "{nodes: 4, devices_per_node: 1, device: a100-sxm-80gb}";

Placed in_order(const Plan& plan, std::int64_t devices) {
  Placed out{&plan, std::vector<std::int64_t>(static_cast<std::size_t>(devices))};
  std::iota(out.devices.begin(), out.devices.end(), 0);
  return out;
}

MoveScene layer_pricing_of(const Job& job) { return {&job.model, find_engine(job.engine), job.training, &job.cluster, {}, {}}; }

/// Returns the bytes of parameters, master weights and moments of the whole model: 2 + 4 + 8 an element.
std::int64_t states(const Job& job) { return parameter_count(job.model) * 14; }

TEST(Move, ToTheSamePlanMovesNothing) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 1, 1, 4, ZeroStage::optimizer);
  const Move m = move_of(layer_pricing_of(job), in_order(plan, 4), in_order(plan, 4)).value();
  EXPECT_EQ(m.peer_bytes, 0);
  EXPECT_EQ(m.storage_bytes, 0);
  EXPECT_TRUE(m.links.empty());
  EXPECT_DOUBLE_EQ(m.pause_s(), 30);
  // All four devices keep the parameters; everything else is kept once.
  EXPECT_EQ(m.kept_bytes, parameter_count(job.model) * (4 * 2 + 12));
}

// From four replicas to four stages nothing moves: every device already holds everything.
TEST(Move, FromReplicasToStagesMovesNothing) {
  const Job job = small_job(kFour);
  const Plan replicas = small_plan(job, 1, 1, 4), stages = small_plan(job, 1, 4, 1);
  const Move m = move_of(layer_pricing_of(job), in_order(replicas, 4), in_order(stages, 4)).value();
  EXPECT_EQ(m.peer_bytes, 0);
  EXPECT_EQ(m.kept_bytes, states(job));
}

// In the reverse direction, one quarter of each of the four copies is there, and three are fetched. The bytes out of
// all nodes equal the bytes in, and the busiest node determines the pause.
TEST(Move, FromStagesToReplicas) {
  const Job job = small_job(kFour);
  const Plan replicas = small_plan(job, 1, 1, 4), stages = small_plan(job, 1, 4, 1);
  const Move m = move_of(layer_pricing_of(job), in_order(stages, 4), in_order(replicas, 4)).value();
  EXPECT_EQ(m.peer_bytes, 3 * states(job));
  EXPECT_EQ(m.kept_bytes, states(job));
  std::int64_t out = 0, in = 0;
  double most = 0;
  for (const LinkLoad& link : m.links) {
    (link.link.find(" out") != std::string::npos ? out : in) += link.bytes;
    most = std::max(most, link.seconds);
  }
  EXPECT_EQ(out, 3 * states(job));
  EXPECT_EQ(in, 3 * states(job));
  const FabricLevel& network = job.cluster.inter.front();
  EXPECT_NEAR(m.transfer_s, most + network.latency.count(), 1e-9);
  const auto busiest = std::max_element(m.links.begin(), m.links.end(),
                                        [](const LinkLoad& a, const LinkLoad& b) { return a.seconds < b.seconds; });
  EXPECT_NEAR(most, static_cast<double>(busiest->bytes) / (network.bandwidth.count() * network.efficiency), 1e-9);
}

// There are two stages of two replicas, and a node of the first is lost. The new plan uses the other three and one in
// its place, which receives the lost states from its twin.
TEST(Move, TheTwinOfALostDeviceGives) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 1, 2, 2);
  MoveScene scene = layer_pricing_of(job);
  scene.state.away = {0};
  const Move m = move_of(scene, in_order(plan, 4), in_order(plan, 4)).value();
  EXPECT_EQ(m.lost_bytes, 0);
  for (const LinkLoad& link : m.links) EXPECT_TRUE(link.link == "node:1 out" || link.link == "node:0 in") << link.link;
}

// ZeRO shards states over two replicas. If one of them is lost, half of the states of its stage are lost. Everything
// is then read from the checkpoint.
TEST(Move, LostShardsAreReadFromStorage) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 1, 2, 2, ZeroStage::optimizer);
  MoveScene scene = layer_pricing_of(job);
  scene.state.away = {0};
  scene.options.checkpoint_age_s = 100;
  const Move m = move_of(scene, in_order(plan, 4), in_order(plan, 4)).value();
  EXPECT_GT(m.lost_bytes, 0);
  EXPECT_EQ(m.peer_bytes, 0);
  EXPECT_EQ(m.storage_bytes, parameter_count(job.model) * (2 * 2 + 12));
  EXPECT_DOUBLE_EQ(m.rollback_s, 100);
  EXPECT_GT(m.storage_s, 0);
  EXPECT_EQ(m.links.front().link, "storage");
}

// Bytes stay inside a node that has a holder: replicas of tp 2 send to the other half.
TEST(Move, TheNearestHolderGives) {
  const Job job = small_job("{nodes: 2, devices_per_node: 2, device: a100-sxm-80gb}");
  const Plan stages = small_plan(job, 2, 1, 2), replicas = small_plan(job, 1, 1, 4);
  const Move m = move_of(layer_pricing_of(job), in_order(stages, 4), in_order(replicas, 4)).value();
  for (const LinkLoad& link : m.links) EXPECT_EQ(link.link.substr(0, 6), "inside") << link.link;
}

constexpr const char* kOne = "{nodes: 1, devices_per_node: 1, device: a100-sxm-80gb}";

// Two replicas move from nodes 0 and 1 to 2 and 3. Node 0 is narrowed to a thousandth: it sends nothing, and node 1
// sends to both.
TEST(Move, ANarrowedHolderIsPassedOver) {
  const Job job = small_job(kFour), two = small_job("{nodes: 2, devices_per_node: 1, device: a100-sxm-80gb}");
  const Plan plan = small_plan(two, 1, 1, 2);
  MoveScene scene = layer_pricing_of(job);
  const Move usual = move_of(scene, in_order(plan, 2), {&plan, {2, 3}}).value();
  scene.state.capacity = {{"node:0", 0.001}};
  const Move m = move_of(scene, in_order(plan, 2), {&plan, {2, 3}}).value();
  for (const LinkLoad& link : m.links) EXPECT_NE(link.link, "node:0 out");
  EXPECT_EQ(m.peer_bytes, 2 * states(job));
  EXPECT_LT(m.transfer_s, 2.1 * usual.transfer_s) << "one gives to both, in place of one each";
  // Both holders are narrowed, one tenfold, one a thousandfold. Each of the eight parts takes the path that is free
  // first.
  scene.state.capacity = {{"node:0", 0.001}, {"node:1", 0.1}};
  const Move slow = move_of(scene, in_order(plan, 2), {&plan, {2, 3}}).value();
  EXPECT_EQ(slow.links.front().link, "node:1 out");
}

// The narrowed path of the only holder would take hours. A checkpoint is read, at the cost of its age. If it is older
// than that, peers are used.
TEST(Move, ACheckpointIsReadWherePeersAreSlower) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(small_job(kOne), 1, 1, 1);
  MoveScene scene = layer_pricing_of(job);
  scene.state.capacity = {{"node:0", 1e-6}};
  scene.options.checkpoint_age_s = 100;
  const Move m = move_of(scene, {&plan, {0}}, {&plan, {1}}).value();
  EXPECT_EQ(m.lost_bytes, 0);
  EXPECT_EQ(m.peer_bytes, 0);
  EXPECT_EQ(m.storage_bytes, states(job));
  EXPECT_DOUBLE_EQ(m.storage_s, static_cast<double>(states(job)) / scene.options.storage_per_device);
  EXPECT_DOUBLE_EQ(m.rollback_s, 100);
  scene.options.checkpoint_age_s = 1e9;
  const Move waits = move_of(scene, {&plan, {0}}, {&plan, {1}}).value();
  EXPECT_EQ(waits.peer_bytes, states(job));
  EXPECT_GT(waits.transfer_s, 3600);
}

// There are two groups whose link from b to a is lost. States that only b holds are lost to a.
TEST(Move, NothingComesOverALostLink) {
  const Job job = small_job(
      "{groups: [{nodes: 1, devices_per_node: 1, device: a100-sxm-80gb}, {nodes: 1, devices_per_node: 1, device: a100-sxm-80gb}],"
      "links: [{from: a, to: b, bandwidth: 100Gb/s, both: true}]}",
      "{devices: any}");
  const Job one = small_job(kOne);
  const Plan plan = small_plan(one, 1, 1, 1);
  MoveScene scene = layer_pricing_of(job);
  const Move usual = move_of(scene, {&plan, {1}}, {&plan, {0}}).value();
  EXPECT_EQ(usual.peer_bytes, states(one));
  scene.state.capacity = {{"b-a", 0.0}};
  const Move m = move_of(scene, {&plan, {1}}, {&plan, {0}}).value();
  EXPECT_EQ(m.lost_bytes, states(one));
  EXPECT_EQ(m.storage_bytes, states(one));
}

/// Compares with the least bytes over all permutations of four nodes.
TEST(Settle, EqualsAllPermutations) {
  const Job job = small_job(kFour);
  const MoveScene scene = layer_pricing_of(job);
  const std::vector<Plan> plans = {small_plan(job, 1, 4, 1), small_plan(job, 1, 2, 2), small_plan(job, 4, 1, 1),
                                   small_plan(job, 2, 2, 1), small_plan(job, 1, 1, 4, ZeroStage::optimizer)};
  std::vector<std::int64_t> order{2, 0, 3, 1};
  for (const Plan& from : plans)
    for (const Plan& to : plans) {
      const Placed placed{&from, order};
      const Present all = present_cluster(job.cluster, job.cluster_source, {}).value();
      const auto chosen = settled(scene, placed, to, all, {}).value();
      const std::int64_t found = move_of(scene, placed, {&to, chosen}).value().peer_bytes;
      std::vector<std::int64_t> permutation{0, 1, 2, 3};
      std::int64_t least = INT64_MAX;
      do least = std::min(least, move_of(scene, placed, {&to, permutation}).value().peer_bytes);
      while (std::next_permutation(permutation.begin(), permutation.end()));
      EXPECT_EQ(found, least) << from.label() << " to " << to.label();
    }
}

// A slow node does not replace a healthy one.
TEST(Settle, ClassesKeepTheirPlaces) {
  const Job job = small_job(kFour);
  MoveScene scene = layer_pricing_of(job);
  scene.state.slow = {{2, 1.5}};
  const Plan from = small_plan(job, 1, 4, 1);
  const Placed placed{&from, {3, 2, 1, 0}};
  const Present all = present_cluster(job.cluster, job.cluster_source, scene.state).value();
  const auto chosen = settled(scene, placed, from, all, {}).value();
  EXPECT_EQ(chosen[2], 2);
  EXPECT_EQ(chosen[0], 3);
}

}  // namespace
}  // namespace espalier::adapt::move_test
