// SPDX-License-Identifier: Apache-2.0
#include "espalier/observation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "adapt/test_jobs.h"

namespace espalier::adapt::observation_test {
namespace {

constexpr const char* kFour = "{nodes: 4, devices_per_node: 2, device: a100-sxm-80gb}";

Observation read(const std::string& rest) {
  return load_observation("{\"schema\": \"espalier.observation/1\"" + rest + "}", "obs.json").value();
}

std::string rank(int number, double forward, double backward) {
  return "{\"rank\": " + std::to_string(number) + ", \"forward_s\": " + std::to_string(forward) +
         ", \"backward_s\": " + std::to_string(backward) + "}";
}

TEST(Observation, IsReadWhole) {
  const Observation o = read(
      R"(, "time_s": 12.5, "steps": [{"iteration_s": 2.0, "tokens": 1000}], "ranks": [{"rank": 3, "forward_s": 0.1, "backward_s": 0.2}],
      "links": [{"link": "node:1", "gbps": 100}], "lost": ["node:3"])");
  EXPECT_DOUBLE_EQ(o.time_s, 12.5);
  EXPECT_DOUBLE_EQ(o.steps.front().tokens.value_or(0), 1000);
  EXPECT_EQ(o.ranks.front().rank, 3);
  EXPECT_EQ(o.links.front().link, "node:1");
  EXPECT_EQ(o.lost, std::vector<std::string>{"node:3"});
  EXPECT_EQ(to_json(load_observation(to_json(o), "again").value()), to_json(o));
  EXPECT_NE(to_json(o).find("\"gbps\": 100"), std::string::npos);
}

TEST(Observation, WhatIsWrongIsRefused) {
  for (const char* text :
       {"", "{}", "[]", R"({"schema": "espalier.plan/2"})", R"({"schema": "espalier.observation/1", "lost": "node:3"})",
        R"({"schema": "espalier.observation/1", "ranks": [{"rank": -1, "forward_s": 1}]})",
        R"({"schema": "espalier.observation/1", "steps": [{"iteration_s": 0}]})",
        R"({"schema": "espalier.observation/1", "rank": []})"})
    EXPECT_FALSE(load_observation(text, "obs.json").ok()) << text;
}

// Ranks 0 to 3 run the first of two stages: one takes 0.45 s where their median is 0.3.
TEST(Diagnosis, ASlowRankAmongThePeersOfItsStage) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  const Observation o =
      read(", \"ranks\": [" + rank(0, 0.1, 0.2) + "," + rank(1, 0.1, 0.2) + "," + rank(2, 0.15, 0.3) + "," + rank(3, 0.1, 0.2) +
           "," + rank(4, 0.5, 1.0) + "," + rank(5, 0.5, 1.0) + "," + rank(6, 0.5, 1.0) + "]");
  const Diagnosis d = diagnose(job, plan, o).value();
  ASSERT_EQ(d.what.slow.size(), 1u) << "the second stage has more to do, and is not slow";
  EXPECT_EQ(d.what.slow.front().first, "rank:2");
  EXPECT_NEAR(d.what.slow.front().second, 1.5, 1e-9);
}

// Twice the tokens take twice the time: nothing is slow, and a step of the plan's tokens takes the same time as
// before.
TEST(Diagnosis, LongerSamplesAreNoSlowRanks) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  const double tokens = 64.0 * 1024;
  const Observation o =
      read(", \"steps\": [{\"iteration_s\": 4, \"tokens\": " + std::to_string(2 * tokens) + "}], \"ranks\": [" +
           rank(0, 0.2, 0.4) + "," + rank(1, 0.2, 0.4) + "," + rank(2, 0.2, 0.4) + "," + rank(3, 0.2, 0.4) + "]");
  const Diagnosis d = diagnose(job, plan, o).value();
  EXPECT_TRUE(d.what.empty());
  EXPECT_DOUBLE_EQ(*d.step_s, 2);
  EXPECT_DOUBLE_EQ(d.tokens_ratio, 2);
  const Replan r = replan(job, plan, o, {}).value();
  EXPECT_FALSE(r.ladder.has_value());
}

TEST(Diagnosis, NarrowLinksAndLostNodes) {
  const Job job = small_job(kFour);
  const Plan plan = small_plan(job, 2, 2, 2);
  const FabricLevel& network = job.cluster.inter.front();
  const double half = network.bandwidth.count() * network.efficiency * 2 * 8e-9 / 2;
  const Observation o =
      read(", \"links\": [{\"link\": \"node:1\", \"gbps\": " + std::to_string(half) + "}], \"lost\": [\"node:3\"]");
  const Diagnosis d = diagnose(job, plan, o).value();
  ASSERT_EQ(d.what.links.size(), 1u);
  EXPECT_NEAR(d.what.links.front().second, 0.5, 1e-6);
  EXPECT_EQ(d.what.lost, std::vector<std::string>{"node:3"});
}

// A link without bandwidth is lost: the node is abandoned permanently.
TEST(Replan, ALinkThatGivesNothingIsLost) {
  const Job job = small_job(kFour, "{fix: {zero: 0}}");
  const Plan plan = small_plan(job, 2, 2, 2);
  const Replan r = replan(job, plan, read(R"(, "links": [{"link": "node:1", "gbps": 0}])"), {}).value();
  ASSERT_EQ(r.diagnosis.what.links.size(), 1u);
  EXPECT_EQ(r.diagnosis.what.links.front().second, 0.0);
  ASSERT_TRUE(r.ladder.has_value());
  EXPECT_TRUE(std::isinf(r.ladder->horizon_s));
  EXPECT_FALSE(r.ladder->if_stay_ns.has_value());
  const Change& change = r.ladder->actions[r.ladder->recommended];
  ASSERT_TRUE(change.possible) << change.what;
  for (const std::int64_t node : change.action == ActionKind::reroute ? std::vector<std::int64_t>{} : change.nodes)
    EXPECT_NE(node, 1);
}

// Each of two stages has two nodes, and a node of the second has almost no bandwidth. Its twin holds the same states.
// The answer moves to a plan without it, and the transfer uses only the other nodes.
TEST(Replan, ANarrowNodeIsLeftWithoutItsLink) {
  const Job job = small_job("{nodes: 4, devices_per_node: 2, device: a100-sxm-80gb}", "{fix: {pp: 2, zero: 0}}");
  const Plan plan = small_plan(job, 1, 2, 4);
  const Replan r = replan(job, plan, read(R"(, "links": [{"link": "node:2", "gbps": 0.001}])"), {}).value();
  ASSERT_TRUE(r.ladder.has_value());
  const Change& change = r.ladder->actions[r.ladder->recommended];
  EXPECT_NE(change.action, ActionKind::stay);
  ASSERT_TRUE(change.plan.has_value());
  for (const std::int64_t node : change.nodes) EXPECT_NE(node, 2);
  for (const LinkLoad& link : change.move.links) EXPECT_EQ(link.link.find("node:2"), std::string::npos) << link.link;
  EXPECT_LT(change.iteration_ns, *r.ladder->if_stay_ns / 100);
}

TEST(Diagnosis, OfAnotherPlanIsRefused) {
  const Job job = small_job(kFour);
  EXPECT_FALSE(diagnose(job, small_plan(job, 2, 2, 2), read(", \"plan\": \"0123456789abcdef\"")).ok());
}

}  // namespace
}  // namespace espalier::adapt::observation_test
