// SPDX-License-Identifier: Apache-2.0
// Tests replicas of unequal samples and states: their costs, and the phase that finds them.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "cost/cluster_costs.h"
#include "mixed_clusters.h"
#include "search/multi_pipeline.h"
#include "search/uneven_replicas.h"
#include "sim/simulator.h"

namespace espalier::uneven_replicas_test {
namespace {

struct Case : property::mixed::Case {
  Case(int blocks, const std::string& groups, const std::string& join, std::int64_t batch)
      : property::mixed::Case(blocks, cat("{groups: [", groups, "], inter_group: ", join, "}"), batch) {}
};

/// Returns one node of devices with a peak in TFLOP/s and a memory.
std::string group(int devices, double tflops, const std::string& memory) {
  return cat("{nodes: 1, devices_per_node: ", devices, ", device: {name: d", static_cast<int>(tflops),
             ", peak_tflops: {bf16: ", std::to_string(tflops), "}, memory: ", memory,
             ", memory_bandwidth: 1TB/s}, intra_node: {bandwidth: 100GB/s, latency: 2us}}");
}
constexpr const char* kFast = "{bandwidth: 1000Gb/s, latency: 1us}";

/// Returns a plan with all devices as replicas of one stage, one micro-batch.
Plan one_stage(const Case& c, ZeroStage zero, std::vector<std::int64_t> samples, std::vector<std::int64_t> states) {
  Plan plan;
  plan.training = c.problem.training;
  plan.engine = "generic";
  Pipeline& pipeline = plan.only_pipeline();
  Strategy s;
  s.dp = static_cast<std::int32_t>(c.cluster.devices());
  s.zero = zero;
  s.shard = shards_optimizer(zero) ? s.dp : 1;
  pipeline.samples = plan.training.global_batch;
  pipeline.schedule.microbatches = 1;
  pipeline.schedule.micro_batch = static_cast<std::int32_t>(plan.training.global_batch / s.dp);
  Stage stage;
  stage.devices = {{0, c.cluster.devices(), 1}};
  stage.chunks = {{{{0, static_cast<std::int32_t>(c.model.layers.size()) - 1, s}}}};
  stage.samples_per_replica = std::move(samples);
  stage.state_shares = std::move(states);
  pipeline.stages = {stage};
  EXPECT_TRUE(unsupported(plan).ok());
  return plan;
}

struct Priced {
  Program program;
  cost::Costs costs;
  std::vector<cost::KindCosts> kinds;
  std::int64_t ns = 0;
  Priced(const Case& c, const Plan& plan) {
    const cost::ClusterCosts of(c.model, c.cluster, plan.training, *c.problem.engine);
    costs = cost::price(of, plan, program, &kinds);
    sim::Simulator simulator;
    ns = simulator.iteration_ns(program, costs);
  }
};

/// On two equal devices, 3 and 1 samples take the time of 3 and 3; the other replica waits.
TEST(UnevenReplicas, TheBusiestDecides) {
  const Case four(2, cat(group(1, 20, "64GiB"), ", ", group(1, 20.0001, "64GiB")), kFast, 4),
      six(2, cat(group(1, 20, "64GiB"), ", ", group(1, 20.0001, "64GiB")), kFast, 6);
  const Priced unequal(four, one_stage(four, ZeroStage::none, {3, 1}, {})), equal(six, one_stage(six, ZeroStage::none, {}, {}));
  EXPECT_EQ(unequal.ns, equal.ns);
  ASSERT_EQ(unequal.kinds.size(), 2U);
  EXPECT_LT(unequal.kinds[1].costs.works.begin()->time.duration_ns(), unequal.kinds[0].costs.works.begin()->time.duration_ns());
}

/// With ZeRO 1 over two ranks, all optimizer state is 2·O, with equal parts of O. Weights 3:1 make parts of 1.5·O and
/// 0.5·O. Parameters and gradients stay.
TEST(UnevenReplicas, StatesFollowTheirWeights) {
  const Case c(2, cat(group(1, 20, "64GiB"), ", ", group(1, 10, "64GiB")), kFast, 4);
  const Priced equal(c, one_stage(c, ZeroStage::optimizer, {}, {})), unequal(c, one_stage(c, ZeroStage::optimizer, {}, {3, 1}));
  ASSERT_EQ(unequal.kinds.size(), 2U);
  const auto held = [](const Priced& p, std::size_t kind) { return p.kinds[kind].costs.stages.begin()->memory; };
  const double part = static_cast<double>(held(equal, 0).optimizer);
  EXPECT_NEAR(static_cast<double>(held(unequal, 0).optimizer), 1.5 * part, 2);
  EXPECT_NEAR(static_cast<double>(held(unequal, 1).optimizer), 0.5 * part, 2);
  EXPECT_EQ(held(unequal, 0).parameters, held(equal, 0).parameters);
  EXPECT_EQ(held(unequal, 0).gradients, held(equal, 0).gradients);
  const Priced sharded(c, one_stage(c, ZeroStage::parameters, {}, {3, 1})),
      shards(c, one_stage(c, ZeroStage::parameters, {}, {}));
  EXPECT_NEAR(static_cast<double>(held(sharded, 0).parameters), 1.5 * static_cast<double>(held(shards, 0).parameters), 2);
  // The rank that holds 1/4 receives 3/4 of everything from the other, 1.5 times as much as with equal parts, so no
  // step is faster.
  EXPECT_GT(sharded.ns, shards.ns);
}

/// With speeds 2:1 and free communication, two thirds of the samples are on the fast half, within one
/// sample a replica.
TEST(UnevenReplicas, SamplesFollowSpeed) {
  Case c(4, cat(group(2, 20, "64GiB"), ", ", group(2, 10, "64GiB")), kFast, 96);
  c.problem.space.allow(Dimension::recompute, {0});
  c.problem.space.allow(Dimension::tp, {1});
  c.problem.space.allow(Dimension::micro_batch, {24});
  planner::SimulatedEvaluator evaluator(1);
  const auto found = search::uneven_replicas(c.problem, evaluator, 0, {});
  ASSERT_TRUE(found.best);
  const Stage& stage = found.best->pipelines.front().stages.front();
  ASSERT_EQ(stage.samples_per_replica.size(), 4U);
  EXPECT_EQ(std::accumulate(stage.samples_per_replica.begin(), stage.samples_per_replica.end(), std::int64_t{0}), 96);
  EXPECT_NEAR(static_cast<double>(stage.samples_per_replica[0]), 32, 1.5);
  EXPECT_NEAR(static_cast<double>(stage.samples_per_replica[3]), 16, 1.5);
  EXPECT_LE(found.lower_bound_ns, found.best->iteration_ns);
}

/// Compute follows speed, and state follows memory: the fast devices have little memory, so equal parts do not fit
/// and unequal ones do.
TEST(UnevenReplicas, StatesFollowMemory) {
  bool found_one = false;
  for (int mib = 900; mib <= 2400 && !found_one; mib += 50) {
    Case c(8, cat(group(2, 20, cat(mib, "MiB")), ", ", group(2, 10, "64GiB")), kFast, 8);
    c.problem.space.allow(Dimension::tp, {1});
    c.problem.space.allow(Dimension::zero, {3});
    planner::SimulatedEvaluator evaluator(1);
    const auto found = search::uneven_replicas(c.problem, evaluator, 0, {});
    if (!found.best) continue;
    const Stage& stage = found.best->pipelines.front().stages.front();
    if (stage.state_shares.empty()) continue;
    found_one = true;
    EXPECT_LT(stage.state_shares.front(), stage.state_shares.back());
    const cost::ClusterCosts of(c.model, c.cluster, c.problem.training, *c.problem.engine);
    Plan plan = one_stage(c, ZeroStage::parameters, {}, {});
    plan.pipelines = found.best->pipelines;
    EXPECT_TRUE(evaluator.evaluate(c.problem, of, plan)->fits);
    plan.only_pipeline().stages.front().state_shares.clear();
    EXPECT_FALSE(evaluator.evaluate(c.problem, of, plan)->fits);
  }
  EXPECT_TRUE(found_one);
}

/// On random small clusters, no plan is below the bound of all work, samples add up, and every rank fits.
TEST(UnevenReplicas, RandomClusters) {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int answers = 0;
  for (int n = 0; n < 25; ++n) {
    const int a = 1 << pick(0, 2), b = 1 << pick(0, 2);
    const Case c(pick(2, 5),
                 cat(group(a, pick(100, 300), cat(pick(2, 16), "GiB")), ", ", group(b, pick(20, 99), cat(pick(2, 16), "GiB"))),
                 cat("{bandwidth: ", pick(10, 400), "Gb/s, latency: ", pick(1, 50), "us}"), (a + b) * pick(1, 6));
    planner::SimulatedEvaluator evaluator(1);
    const auto found = search::uneven_replicas(c.problem, evaluator, 0, {});
    if (!found.best) continue;
    ++answers;
    EXPECT_GE(found.best->iteration_ns, search::work_bound_ns(c.problem));
    Plan plan;
    plan.training = c.problem.training;
    plan.engine = "generic";
    plan.pipelines = found.best->pipelines;
    EXPECT_TRUE(unsupported(plan).ok());
    const cost::ClusterCosts of(c.model, c.cluster, c.problem.training, *c.problem.engine);
    const auto again = evaluator.evaluate(c.problem, of, plan);
    EXPECT_TRUE(again->fits);
    EXPECT_EQ(again->iteration_ns, found.best->iteration_ns);
  }
  EXPECT_GT(answers, 15);
}

}  // namespace
}  // namespace espalier::uneven_replicas_test
