// SPDX-License-Identifier: Apache-2.0
// Tests plans on groups of unlike devices: the phase against every chain of stages that its options allow, and the
// properties of any answer.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "mixed_clusters.h"
#include "search/multi_pipeline.h"

namespace espalier {
namespace {

using namespace property::mixed;  // NOLINT: cases on unlike devices

search::GroupedOutcome found(const Case& c) {
  planner::SimulatedEvaluator evaluator(1);
  return search::device_groups(c.problem, evaluator, {});
}

/// The lower bound holds, and the answer is no further from the best of all plans than the certificate states.
TEST(DeviceGroups, TheCertificateHoldsAgainstEveryChain) {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int equal = 0, cases = 0;
  double worst = 1;
  for (int n = 0; n < 30; ++n) {
    const std::string text = cat("{groups: [", group(1, pick(1, 2) * 2, device("fast", pick(100, 300), pick(2, 8))), ", ",
                                 group(pick(1, 2), pick(1, 2), device("slow", pick(20, 100), pick(2, 8))),
                                 "], inter_group: {bandwidth: ", pick(1, 100), "Gb/s, latency: ", pick(5, 200), "us}}");
    Case c(pick(2, 3), text, 4 * pick(1, 2));
    c.problem.space.allow(Dimension::zero, {pick(0, 1)});
    c.problem.space.allow(Dimension::sp, {0});
    c.problem.space.allow(Dimension::recompute, {pick(0, 1) * 2});
    const search::GroupedOutcome outcome = found(c);
    const std::int64_t best = Exhaustive(c).best();
    ASSERT_EQ(outcome.best.has_value(), best < INT64_MAX) << text;
    if (!outcome.best) continue;
    ++cases;
    equal += outcome.best->iteration_ns == best ? 1 : 0;
    worst = std::max(worst, static_cast<double>(outcome.best->iteration_ns) / static_cast<double>(best));
    EXPECT_LE(outcome.lower_bound_ns, best) << text;
    EXPECT_GE(outcome.best->iteration_ns, best) << text;
    EXPECT_LE(outcome.lower_bound_ns, outcome.best->iteration_ns) << text;
  }
  EXPECT_GE(cases, 20);
  RecordProperty("equal", equal);
  EXPECT_LE(worst, 1.1);
  EXPECT_GE(equal * 10, cases * 8) << equal << " of " << cases;
}

/// Returns a random chain of stages of these options on free units, or an empty one.
std::vector<solve::GroupedStage> random_chain(const solve::DeviceGroupsProblem& problem, std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto layers = static_cast<std::int32_t>(problem.layers.size());
  std::vector<std::int32_t> free = problem.units;
  std::vector<solve::GroupedStage> stages;
  const int wanted = pick(1, 4);
  for (std::int32_t first = 0; first < layers;) {
    const int o = pick(0, static_cast<int>(problem.options.size()) - 1);
    const solve::StageOption& option = problem.options[static_cast<std::size_t>(o)];
    std::int32_t& left = free[static_cast<std::size_t>(option.kind)];
    if (left < option.units) return {};
    left -= option.units;
    const bool last = static_cast<int>(stages.size()) + 1 == wanted;
    const std::int32_t end = last ? layers : std::min(layers, first + pick(1, layers / wanted + 1));
    stages.push_back({o, first, end - 1});
    first = end;
  }
  return stages;
}

/// Whatever the options, sizes, links and layers, no plan is faster in the simulator than its bound, and none that
/// fits is rejected for memory. In half of the cases stages may split sequences.
TEST(DeviceGroups, NoPlanIsFasterThanItsBound) {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int chains = 0, fitting = 0, split = 0, zero_bubble = 0;
  double share = 0;
  for (int n = 0; n < 40; ++n) {
    const std::string text = cat("{groups: [", group(pick(1, 2), 4, device("fast", pick(100, 300), pick(1, 8))), ", ",
                                 group(pick(1, 3), pick(1, 2) * 2, device("slow", pick(20, 100), pick(1, 8))),
                                 "], inter_group: {bandwidth: ", pick(1, 100), "Gb/s, latency: ", pick(5, 2000), "us}}");
    Case c(pick(2, 40), text, 16);
    if (n % 2 == 1) c.problem.space.allow(Dimension::cp, {1, 2, 4});
    const cost::ClusterCosts costs(c.model, c.cluster, c.problem.training, *c.problem.engine);
    planner::SimulatedEvaluator evaluator(1);
    const std::int64_t samples = 1 << pick(0, 4);
    const search::StageOptions options = search::stage_options(c.problem, costs, samples);
    if (options.options.empty()) continue;
    const solve::DeviceGroupsProblem numbers = search::solver_problem(c.problem, options, samples);
    solve::DeviceGroupsProblem roomy = numbers;
    for (solve::StageOption& option : roomy.options) option.memory_bytes = INT64_MAX / 4;
    for (int k = 0; k < 40; ++k) {
      const std::vector<solve::GroupedStage> chain = random_chain(numbers, random);
      if (chain.empty()) continue;
      Plan plan;
      plan.training = c.problem.training;
      plan.engine = "generic";
      plan.pipelines = {search::pipeline_of(c.problem, options, chain, samples)};
      const auto found = evaluator.evaluate(c.problem, costs, plan);
      const auto bounded = solve::evaluate_stages(roomy, chain);
      ASSERT_TRUE(found && bounded);
      ASSERT_LE(bounded->bound_ns, found->iteration_ns) << text << ", " << samples << " samples";
      if (found->fits) {
        EXPECT_TRUE(solve::evaluate_stages(numbers, chain)) << text << ", " << samples << " samples";
      }
      fitting += found->fits ? 1 : 0;
      plan.only_pipeline().schedule.kind = ScheduleKind::zb_h1;
      if (chain.size() > 1 && search::pipeline_admitted(c.problem, plan.only_pipeline(), samples)) {
        const auto late = evaluator.evaluate(c.problem, costs, plan);
        ASSERT_LE(solve::evaluate_zero_bubble(roomy, chain)->bound_ns, late->iteration_ns)
            << text << ", " << samples << " samples";
        if (late->fits) {
          EXPECT_TRUE(solve::evaluate_zero_bubble(numbers, chain)) << text << ", " << samples << " samples";
        }
        ++zero_bubble;
      }
      const std::vector<Stage>& stages = plan.only_pipeline().stages;
      split += std::any_of(stages.begin(), stages.end(),
                           [](const Stage& s) { return s.chunks.front().ranges.front().strategy.cp > 1; });
      share += static_cast<double>(bounded->bound_ns) / static_cast<double>(found->iteration_ns);
      ++chains;
    }
  }
  EXPECT_GT(chains, 300);
  EXPECT_GT(fitting, 50);
  EXPECT_GT(split, 50);
  EXPECT_GT(zero_bubble, 50);
  EXPECT_GT(share, 0.95 * chains) << share / chains;
}

/// The best uniform plan of each group takes the same time on its devices in the cluster as on the group alone. With
/// a device at half its speed, the compute of the group takes twice as long.
TEST(SingleGroup, AloneInTheClusterAsOnItsOwn) {
  const std::string fast = group(1, 4, device("fast", 200, 16));
  std::string slow = group(2, 2, device("slow", 80, 32));
  slow.insert(slow.size() - 1, ", speed: {\"rank:5\": 0.5}");
  const Case mixed(8, cat("{groups: [", fast, ", ", slow, "], inter_group: {bandwidth: 50Gb/s, latency: 10us}}"), 16);
  planner::SimulatedEvaluator evaluator(1);
  const search::SingleGroupOutcome found = search::single_group(mixed.problem, evaluator, {});
  ASSERT_EQ(found.groups.size(), 2U);
  ASSERT_TRUE(found.best && found.groups[0].best && found.groups[1].best);
  EXPECT_TRUE(found.complete);
  EXPECT_EQ(found.lower_bound_ns, found.best->iteration_ns);
  Case alone(8, cat("{groups: [", fast, "]}"), 16);
  alone.problem.space = search::space_alone(alone.problem.space);
  const search::Outcome own = search::branch_and_bound(alone.problem, evaluator, {});
  ASSERT_TRUE(own.best);
  EXPECT_EQ(found.groups[0].best->iteration_ns, own.best->iteration_ns);
  EXPECT_GT(found.groups[1].best->iteration_ns,
            2 * found.groups[0].best->iteration_ns);  // 80 at half speed against 200, plus host time
}

/// Tests two kinds with speeds 1:2 that are joined by almost no bandwidth. Each runs a pipeline, with samples in
/// proportion within one micro-batch.
TEST(MultiPipeline, SamplesFollowSpeed) {
  Case c(4,
         cat("{groups: [", group(1, 1, device("fast", 20, 64)), ", ", group(1, 1, device("slow", 10, 64)),
             "], inter_group: {bandwidth: 1000Gb/s, latency: 0us}}"),
         96);
  c.problem.space.allow(Dimension::recompute, {0});
  c.problem.space.allow(Dimension::micro_batch, {1});
  planner::SimulatedEvaluator evaluator(1);
  const search::SingleGroupOutcome alone = search::single_group(c.problem, evaluator, {});
  const search::MultiPipelineOutcome found = search::multi_pipeline(c.problem, evaluator, alone, 0, {});
  ASSERT_TRUE(found.best);
  ASSERT_EQ(found.best->pipelines.size(), 2U);
  EXPECT_LE(found.lower_bound_ns, found.best->iteration_ns);
  EXPECT_LT(found.best->iteration_ns, alone.best->iteration_ns);
  std::array<std::int64_t, 2> ms{};
  for (std::size_t k = 0; k < 2; ++k) {
    const Pipeline& p = found.best->pipelines[k];
    ms[k] = p.samples;
    EXPECT_EQ(p.schedule.microbatches * p.samples_per_microbatch(), p.samples);
  }
  EXPECT_EQ(ms[0] + ms[1], 96);
  // Compute alone would give 64:32; launches and memory are equally fast on both.
  const double fast = static_cast<double>(alone.groups[0].best->iteration_ns),
               slow = static_cast<double>(alone.groups[1].best->iteration_ns);
  EXPECT_NEAR(static_cast<double>(ms[0]), 96 * slow / (fast + slow), 1.5);
}

/// Tests that no plan that any phase finds on random clusters is faster than the bound of all work.
TEST(MultiPipeline, NothingIsBelowTheWorkBound) {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 25; ++n) {
    const std::string text = cat("{groups: [", group(1, pick(1, 2) * 2, device("fast", pick(100, 300), pick(4, 16))), ", ",
                                 group(pick(1, 2), pick(1, 2), device("slow", pick(20, 100), pick(4, 16))),
                                 "], inter_group: {bandwidth: ", pick(1, 100), "Gb/s, latency: ", pick(5, 200), "us}}");
    const Case c(pick(2, 4), text, 4 * pick(1, 6));
    const std::int64_t bound = search::work_bound_ns(c.problem);
    planner::SimulatedEvaluator evaluator(1);
    const search::SingleGroupOutcome alone = search::single_group(c.problem, evaluator, {});
    const search::MultiPipelineOutcome several = search::multi_pipeline(c.problem, evaluator, alone, 0, {});
    const search::GroupedOutcome chain = found(c);
    if (alone.best) {
      EXPECT_LE(bound, alone.best->iteration_ns) << text;
    }
    if (several.best) {
      EXPECT_LE(bound, several.best->iteration_ns) << text;
    }
    if (chain.best) {
      EXPECT_LE(bound, chain.best->iteration_ns) << text;
    }
  }
}

/// With speeds 1:2, the layers of two stages divide 1:2, within one.
TEST(DeviceGroups, LayersFollowSpeed) {
  Case c(24,
         cat("{groups: [", group(1, 1, device("fast", 200, 64)), ", ", group(1, 1, device("slow", 100, 64)),
             "], inter_group: {bandwidth: 400Gb/s, latency: 1us}}"),
         32);
  c.problem.space.allow(Dimension::recompute, {0});
  const search::GroupedOutcome outcome = found(c);
  ASSERT_TRUE(outcome.best);
  const std::vector<Stage>& stages = outcome.best->pipelines.front().stages;
  ASSERT_EQ(stages.size(), 2U);
  for (const Stage& stage : stages) {
    const int layers = stage.chunks.front().last() - stage.chunks.front().first() + 1;
    EXPECT_NEAR(layers, stage.devices.front().first == 0 ? 17.3 : 8.7, 1.5);
  }
}

/// A device a thousand times slower gets no work.
TEST(DeviceGroups, AHopelessDeviceIsLeftOut) {
  Case c(8,
         cat("{groups: [", group(1, 2, device("fast", 200, 32)), ", ", group(1, 2, device("hopeless", 0.2, 32)),
             "], inter_group: {bandwidth: 100Gb/s, latency: 5us}}"),
         16);
  const search::GroupedOutcome outcome = found(c);
  ASSERT_TRUE(outcome.best);
  for (const Stage& stage : outcome.best->pipelines.front().stages) EXPECT_LT(stage.devices.front().first, 2);
}

/// Another order of the groups gives the same time.
TEST(DeviceGroups, TheOrderOfGroupsDoesNotMatter) {
  const std::string fast = group(1, 4, device("fast", 200, 16)), slow = group(2, 2, device("slow", 80, 32));
  const std::string join = "], inter_group: {bandwidth: 50Gb/s, latency: 10us}}";
  const Case a(8, cat("{groups: [", fast, ", ", slow, join), 16), b(8, cat("{groups: [", slow, ", ", fast, join), 16);
  const auto x = found(a), y = found(b);
  ASSERT_TRUE(x.best && y.best);
  EXPECT_EQ(x.best->iteration_ns, y.best->iteration_ns);
  EXPECT_EQ(x.lower_bound_ns, y.lower_bound_ns);
}

}  // namespace
}  // namespace espalier
