// SPDX-License-Identifier: Apache-2.0
// Tests the ladder on small clusters.
#include <gtest/gtest.h>

#include <cmath>

#include "adapt/actions.h"
#include "adapt/test_jobs.h"

namespace espalier::adapt::what_if_test {
namespace {

constexpr const char* kFour = "{nodes: 4, devices_per_node: 2, device: a100-sxm-80gb}";

const Change& of(const WhatIf& answer, ActionKind kind) { return answer.actions[static_cast<std::size_t>(kind)]; }

Disturbance lose(const std::string& node) {
  Disturbance d;
  d.lost = {node};
  return d;
}

TEST(Present, NodesAreLeftOutAndNumberedAnew) {
  const Job job = small_job(
      "{groups: [{nodes: 2, devices_per_node: 2, device: a100-sxm-80gb}, {nodes: 2, devices_per_node: 1, device: "
      "a100-sxm-80gb}], "
      "inter_group: {bandwidth: 100Gb/s, latency: 5us}}");
  ClusterState state;
  state.away = {1};
  state.slow = {{4, 2.0}};  // node:2, the first of the second group
  const Present p = present_cluster(job.cluster, job.cluster_source, state).value();
  EXPECT_EQ(p.node_of, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(device_numbers(p, job.cluster), (std::vector<std::int64_t>{0, 1, 4, 5}));
  EXPECT_DOUBLE_EQ(p.cluster.speed_of(2), 0.5);
  EXPECT_DOUBLE_EQ(p.cluster.speed_of(3), 1);
  const Cluster read = load_cluster(p.source, "source").value();
  EXPECT_EQ(read.devices(), 4);
  EXPECT_EQ(read.groups[0].nodes, 1);
}

TEST(Present, TheWholeClusterIsItself) {
  const Job job = small_job(kFour);
  const Present p = present_cluster(job.cluster, job.cluster_source, {}).value();
  Cluster same = job.cluster;
  EXPECT_EQ(p.cluster, same);
  ClusterState none;
  none.away = {0, 1, 2, 3};
  EXPECT_FALSE(present_cluster(job.cluster, job.cluster_source, none).ok());
}

// A node and one of its devices at half each leave a quarter to that device. Another node at twice its bandwidth does
// not make up for it: the group has the least.
TEST(Present, WhatIsFasterElsewhereDoesNotHideWhatIsSlower) {
  const Job job = small_job(kFour);
  const double nominal = job.cluster.inter.front().bandwidth.count();
  const auto rate = [&](const std::vector<CapacityFactor>& capacity) {
    ClusterState state;
    state.capacity = capacity;
    return present_cluster(job.cluster, job.cluster_source, state).value().cluster.inter.front().bandwidth.count() / nominal;
  };
  EXPECT_DOUBLE_EQ(rate({{"node:0", 0.5}, {"rank:1", 0.5}}), 0.25);
  EXPECT_DOUBLE_EQ(rate({{"rank:1", 0.5}, {"node:0", 0.5}}), 0.25);
  EXPECT_DOUBLE_EQ(rate({{"node:0", 0.5}, {"node:1", 2.0}}), 0.5);
  EXPECT_DOUBLE_EQ(rate({{"node:1", 2.0}, {"rank:0", 0.5}}), 0.5);
  // 1.5 for that device, and full bandwidth for the others.
  EXPECT_DOUBLE_EQ(rate({{"node:0", 2.0}, {"rank:1", 0.75}}), 1.0);
  EXPECT_DOUBLE_EQ(rate({{"node:1", 2.0}}), 1.0);
}

constexpr const char* kThreeSites =
    "{groups: [{nodes: 2, devices_per_node: 1, device: a100-sxm-80gb}, {nodes: 1, devices_per_node: 1, device: a100-sxm-80gb}, "
    "{nodes: 1, "
    "devices_per_node: 1, device: a100-sxm-80gb}], links: [{from: a, to: b, bandwidth: 100Gb/s, both: true}, {from: b, to: c, "
    "bandwidth: "
    "100Gb/s, both: true}]}";

// Groups are joined as a – b – c. Without the link between b and c there are two parts. Without any link every group
// is a part of its own. Absent groups join nothing.
TEST(Present, PartsThatAreStillJoined) {
  const Job job = small_job(kThreeSites, "{devices: any}");
  ClusterState state;
  using Parts = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(joined_parts(job.cluster, state, {0, 1, 2, 3}), (Parts{{0, 1, 2, 3}}));
  state.capacity = {{"c-b", 0.0}};
  EXPECT_EQ(joined_parts(job.cluster, state, {0, 1, 2, 3}), (Parts{{0, 1, 2}, {3}}));
  EXPECT_FALSE(present_cluster(job.cluster, job.cluster_source, state).ok());
  EXPECT_TRUE(present_on(job.cluster, job.cluster_source, state, {0, 1, 2}).ok());
  state.capacity = {{"a-b", 0.0}, {"b-a", 0.0}, {"b-c", 0.0}, {"c-b", 0.0}};
  EXPECT_EQ(joined_parts(job.cluster, state, {0, 1, 2, 3}), (Parts{{0, 1}, {2}, {3}}));
  EXPECT_FALSE(present_cluster(job.cluster, job.cluster_source, state).ok());
}

// Links of a group whose nodes are gone are gone with it.
TEST(Present, LinksOfAbsentGroupsAreLeftOut) {
  const Job job = small_job(kThreeSites, "{devices: any}");
  ClusterState state;
  state.away = {3};
  const Present p = present_cluster(job.cluster, job.cluster_source, state).value();
  EXPECT_EQ(p.cluster.links.size(), 2u);
  EXPECT_EQ(load_cluster(p.source, "source").value().links.size(), 2u);
  // Without the first group the remaining groups are still named b and c.
  state.away = {0, 1};
  const Present later = present_cluster(job.cluster, job.cluster_source, state).value();
  const Cluster read = load_cluster(later.source, "source").value();
  EXPECT_EQ(read.groups.front().name, "b");
  EXPECT_EQ(read.links.size(), 2u);
}

TEST(WhatIf, NothingChangesNothing) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  Disturbance d;
  d.slow = {{"rank:3", 1.0}};
  const WhatIf answer = what_if(job, plan, d, {}).value();
  EXPECT_EQ(of(answer, ActionKind::stay).iteration_ns, answer.before_ns);
  EXPECT_EQ(answer.before_ns, simulate(job, plan)->prediction.iteration_ns);
}

TEST(WhatIf, ALostNode) {
  const Job job = small_job(kFour, "{fix: {zero: 0}}");
  const Plan plan = small_plan(job, 2, 2, 2);
  const WhatIf answer = what_if(job, plan, lose("node:3"), {}).value();
  EXPECT_FALSE(answer.if_stay_ns.has_value());
  EXPECT_FALSE(of(answer, ActionKind::stay).possible);
  EXPECT_FALSE(of(answer, ActionKind::re_place).possible);
  // One replica takes all 64 micro-batches on its own nodes: nothing moves.
  const Change& shifted = of(answer, ActionKind::shift);
  ASSERT_TRUE(shifted.possible) << shifted.what;
  EXPECT_EQ(shifted.move.peer_bytes, 0);
  EXPECT_EQ(shifted.nodes, (std::vector<std::int64_t>{0, 2}));
  ASSERT_TRUE(shifted.plan.has_value());
  EXPECT_EQ(shifted.plan->only_pipeline().schedule.microbatches, 64);
  // The peers of one stage do its work twice. The step is longer than before, but less than twice as long.
  const Change& rerouted = of(answer, ActionKind::reroute);
  ASSERT_TRUE(rerouted.possible) << rerouted.what;
  EXPECT_GT(rerouted.iteration_ns, answer.before_ns);
  EXPECT_LT(rerouted.iteration_ns, shifted.iteration_ns);
  EXPECT_EQ(rerouted.move.peer_bytes + rerouted.move.storage_bytes, 0);
  // A new plan is no slower than actions that keep the old plan's shape.
  const Change& reshaped = of(answer, ActionKind::reshape);
  ASSERT_TRUE(reshaped.possible) << reshaped.what;
  EXPECT_LE(reshaped.iteration_ns, shifted.iteration_ns);
  EXPECT_DOUBLE_EQ(*reshaped.break_even_s, reshaped.move.pause_s());
  EXPECT_TRUE(std::isinf(answer.horizon_s));
}

TEST(WhatIf, ASpareNodeTakesThePlaceOfALostOne) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  Disturbance d = lose("node:3");
  d.added = {{"a", 1}};
  const WhatIf answer = what_if(job, plan, d, {}).value();
  const Change& placed = of(answer, ActionKind::re_place);
  ASSERT_TRUE(placed.possible) << placed.what;
  EXPECT_EQ(placed.iteration_ns, answer.before_ns);
  EXPECT_EQ(placed.nodes, (std::vector<std::int64_t>{0, 1, 2, 4}));
  // The states of node:3, its half of the second stage's layers, come from node:2, the other replica.
  EXPECT_GT(placed.move.peer_bytes, 0);
  for (const LinkLoad& link : placed.move.links) EXPECT_TRUE(link.link == "node:2 out" || link.link == "node:4 in") << link.link;
}

// Device 0 takes twice as long. If the plan stays, the first stage of both replicas waits for it. That stage had less
// work than the second, so the step is less than twice as long. If the slow replica hands over micro-batches, the
// step is shorter than staying and longer than before.
TEST(WhatIf, ASlowRankGivesSamplesAway) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  Disturbance d;
  d.slow = {{"rank:0", 2.0}};
  const WhatIf answer = what_if(job, plan, d, {}).value();
  ASSERT_TRUE(answer.if_stay_ns.has_value());
  EXPECT_GT(*answer.if_stay_ns * 10, answer.before_ns * 13);
  EXPECT_LT(*answer.if_stay_ns, answer.before_ns * 2);
  const Change& shifted = of(answer, ActionKind::shift);
  ASSERT_TRUE(shifted.possible) << shifted.what;
  EXPECT_LT(shifted.iteration_ns, *answer.if_stay_ns);
  EXPECT_GT(shifted.iteration_ns, answer.before_ns);
  ASSERT_EQ(shifted.plan->pipelines.size(), 2u);
  // The balance is 2·(m + 1) ≈ 64 − m + 1: 21 of 64.
  EXPECT_NEAR(shifted.plan->pipelines[0].schedule.microbatches, 21, 1);
  EXPECT_DOUBLE_EQ(answer.horizon_s, 600);
  EXPECT_DOUBLE_EQ(shifted.move.pause_s(), 0);
}

TEST(WhatIf, BreakEvenIsWhereBothHaveTrainedAsMuch) {
  WhatIf answer;
  answer.actions.resize(2);
  answer.actions[0].possible = answer.actions[1].possible = true;
  answer.actions[0].iteration_ns = 4'000'000'000;
  answer.actions[1].iteration_ns = 3'000'000'000;
  answer.actions[1].move.restart_s = 30;
  // The break-even is (h − 0)/4 = (h − 30)/3 at h = 120.
  EXPECT_DOUBLE_EQ(*answer.break_even(0, 1), 120);
  EXPECT_FALSE(answer.break_even(1, 0).has_value());
}

TEST(WhatIf, UnknownNamesAreRefused) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  EXPECT_FALSE(what_if(job, plan, lose("node:9"), {}).ok());
  EXPECT_FALSE(what_if(job, plan, lose("rank:1"), {}).ok());
  Disturbance d;
  d.links = {{"node:1", 2.0}};
  EXPECT_FALSE(what_if(job, plan, d, {}).ok());
  EXPECT_FALSE(named_factor("node:3", "--slow", 1, 9).ok());
  EXPECT_FALSE(named_factor("node:3=0.5", "--slow", 1, 9).ok());
  EXPECT_EQ(named_factor("node:3=1.5", "--slow", 1, 9)->second, 1.5);
}

// There are C(4, 1) + C(4, 2) = 10 losses. One node: of either stage, 2 classes. Two nodes: both of one stage, 2
// classes; one of each in one replica or in two, 2 classes.
TEST(Survive, EveryLossHasAPlan) {
  const Job job = small_job(kFour, "{fix: {zero: 0}}");
  const Survival answer = survive(job, small_plan(job, 2, 2, 2), 2, {}).value();
  EXPECT_EQ(answer.losses, 10);
  EXPECT_EQ(answer.covered, 10);
  ASSERT_EQ(answer.classes.size(), 6u);
  std::int64_t sum = 0;
  for (const LossClass& c : answer.classes) sum += c.losses;
  EXPECT_EQ(sum, 10);
}

TEST(SmallerCounts, AreThoseThatDivideWell) {
  EXPECT_EQ(smaller_counts(5), (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(smaller_counts(31), (std::vector<std::int64_t>{30, 29, 28, 27, 24, 16}));
  EXPECT_EQ(smaller_counts(1), std::vector<std::int64_t>{});
}

}  // namespace
}  // namespace espalier::adapt::what_if_test
