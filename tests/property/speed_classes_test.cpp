// SPDX-License-Identifier: Apache-2.0
// Tests the search on devices of unequal speed: properties of any answer.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "mixed_clusters.h"
#include "search/phases.h"
#include "search/speed_classes.h"

namespace espalier::speed_classes_test {
namespace {

/// Returns one group of such nodes; `speed` is in the notation of a cluster file.
std::string nodes_of(std::int64_t nodes, std::int64_t devices, const std::string& speed) {
  return cat("{nodes: ", nodes, ", devices_per_node: ", devices,
             ", device: {name: own, peak_tflops: {bf16: 20}, memory: 64GiB, memory_bandwidth: 1TB/s}, "
             "intra_node: {bandwidth: 100GB/s, "
             "latency: 2us}, inter_node: {bandwidth: 400Gb/s, latency: 1us}",
             speed.empty() ? "" : cat(", speed: {", speed, "}"), "}");
}

struct Case : property::mixed::Case {
  Case(int blocks, std::int64_t nodes, std::int64_t devices, const std::string& speed, std::int64_t batch)
      : property::mixed::Case(blocks, nodes_of(nodes, devices, speed), batch) {}

  [[nodiscard]] search::SearchResult found(int threads = 1, bool unlike_stages = true) const {
    planner::SimulatedEvaluator evaluator(threads);
    search::PhaseOptions how;
    how.how.threads = threads;
    how.any_devices = true;
    how.unlike_stages = unlike_stages;
    return search::search(problem, evaluator, how);
  }
};

std::set<std::int64_t> devices_of(const search::PlanCandidate& plan) {
  std::set<std::int64_t> out;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices)
        for (std::int64_t k = 0; k < range.count; ++k) EXPECT_TRUE(out.insert(range.first + k * range.stride).second);
  return out;
}

/// A device of almost no speed gets no work, wherever it is; the other devices of its node work on.
TEST(SpeedClasses, ADeadDeviceGetsNothing) {
  for (const char* dead : {"\"rank:0\": 1e-6", "\"rank:5\": 1e-6"}) {
    const auto best = Case(8, 2, 4, dead, 16).found().best();
    ASSERT_TRUE(best);
    const std::set<std::int64_t> used = devices_of(*best);
    EXPECT_FALSE(used.contains(dead[6] - '0')) << dead;
    EXPECT_GE(used.size(), 4U);
  }
}

/// Two devices of speeds 1:2, with at most one stage each, divide the samples 2:1 within one.
TEST(SpeedClasses, SamplesFollowSpeed) {
  Case c(4, 2, 1, "\"node:1\": 0.5", 96);
  c.problem.space.limit(Dimension::pp, 1);
  c.problem.space.allow(Dimension::recompute, {0});
  c.problem.space.allow(Dimension::micro_batch, {1});
  const search::SearchResult found = c.found();
  const auto best = found.best();
  ASSERT_TRUE(best);
  ASSERT_EQ(best->pipelines.size(), 2U);
  for (const Pipeline& pipeline : best->pipelines)
    EXPECT_NEAR(static_cast<double>(pipeline.samples), pipeline.stages.front().devices.front().first == 0 ? 64 : 32, 1.0);
  EXPECT_LE(found.lower_bound_ns(), best->iteration_ns);
}

/// Two stages of speeds 1:2 with 32 micro-batches divide 26 layers 17.3 : 8.7, within one.
TEST(SpeedClasses, LayersFollowSpeed) {
  Case c(24, 2, 1, "\"node:0\": 0.5", 32);
  c.problem.space.allow(Dimension::recompute, {0});
  const search::SearchResult found = c.found();
  ASSERT_TRUE(found.grouped && found.grouped->best);
  const std::vector<Stage>& stages = found.grouped->best->pipelines.front().stages;
  ASSERT_EQ(stages.size(), 2U);
  for (const Stage& stage : stages) {
    const int layers = stage.chunks.front().last() - stage.chunks.front().first() + 1;
    EXPECT_NEAR(layers, stage.devices.front().first == 1 ? 17.3 : 8.7, 1.5);
  }
}

/// Compares the search, where the classes are exact, with that of groups of described devices.
TEST(SpeedClasses, AsGroupsOfSlowDevices) {
  const Case c(8, 4, 2, "\"node:3\": 0.6", 16);
  const search::SpeedClasses classes(c.cluster);
  ASSERT_TRUE(classes.exact());
  search::Problem own = c.problem;
  own.cluster = &classes.cluster();
  planner::SimulatedEvaluator evaluator(1);
  search::PhaseOptions how;
  how.any_devices = true;
  const search::SearchResult groups = search::search(own, evaluator, how), found = c.found();
  ASSERT_GT(groups.best_ns(), 0);
  EXPECT_LE(found.best_ns(), groups.best_ns());
  EXPECT_GE(found.best_ns(), groups.lower_bound_ns());
}

/// With random speeds, no answer is slower than the best uniform plan at the pace of the slowest device, and none is
/// below the bound. A restricted engine's answer is uniform on its devices. Any number of threads finds the same.
TEST(SpeedClasses, RandomSpeeds) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 8; ++n) {
    const int nodes = pick(1, 4), devices = 1 << pick(0, 2);
    std::string speed = cat("\"rank:", pick(0, nodes * devices - 1), "\": 0.", pick(1, 9));
    if (nodes > 1 && pick(0, 1) == 1) speed = cat("\"node:", pick(0, nodes - 1), "\": 0.", pick(2, 9));
    const Case c(pick(2, 6), nodes, devices, speed, 4 * pick(1, 4));
    const search::SearchResult found = c.found();
    const auto best = found.best();
    ASSERT_TRUE(best) << speed;
    devices_of(*best);
    EXPECT_LE(found.lower_bound_ns(), best->iteration_ns);
    Cluster slowest = search::group_alone(c.cluster, 0);
    search::Problem uniform = c.problem;
    uniform.cluster = &slowest;
    uniform.space = search::space_alone(uniform.space);
    planner::SimulatedEvaluator evaluator(1);
    const search::Outcome lockstep = search::branch_and_bound(uniform, evaluator, {});
    ASSERT_TRUE(lockstep.best);
    EXPECT_LE(best->iteration_ns, lockstep.best->iteration_ns) << speed;
    const search::SearchResult restricted = c.found(1, false);
    EXPECT_LE(best->iteration_ns, restricted.best_ns());
    EXPECT_FALSE(restricted.grouped || restricted.multi_pipeline);
    const search::SearchResult again = c.found(4);
    EXPECT_EQ(again.best()->pipelines, best->pipelines);
    EXPECT_EQ(again.lower_bound_ns(), found.lower_bound_ns());
  }
}

}  // namespace
}  // namespace espalier::speed_classes_test
