// SPDX-License-Identifier: Apache-2.0
#include "search/multi_pipeline.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "plan/engine.h"
#include "profile/measured_operators.h"
#include "search/test_fixture.h"

namespace espalier::search {
namespace {

using test::Fixture;

/// The first is twice as fast and gets 8 of 12 samples. With a late start of 3 and 17 samples, (3 + 7, 10) is
/// balanced.
TEST(DealSamples, BySpeed) {
  EXPECT_EQ(deal_samples({{1, 0, 1}, {1, 0, 2}}, 12), (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(deal_samples({{1, 3, 1}, {1, 0, 1}}, 17), (std::vector<std::int64_t>{7, 10}));
}

/// Micro-batches have 4 and 1 samples: 4·3 + 4 or 4·2 + 8, …; the first takes 2 per micro-batch, the second 1.
TEST(DealSamples, MicroBatchesOfUnlikeSize) {
  EXPECT_EQ(deal_samples({{4, 0, 2}, {1, 0, 1}}, 18), (std::vector<std::int64_t>{3, 6}));
  EXPECT_EQ(deal_samples({{4, 0, 2}, {1, 0, 1}}, 5), (std::vector<std::int64_t>{1, 1}));
}

TEST(DealSamples, EachHasOneOrThereIsNone) {
  EXPECT_TRUE(deal_samples({{4, 0, 1}, {2, 0, 1}}, 7).empty());
  EXPECT_TRUE(deal_samples({{4, 0, 1}, {4, 0, 1}}, 4).empty());
  EXPECT_EQ(deal_samples({{4, 0, 1}, {4, 0, 1000}}, 80), (std::vector<std::int64_t>{19, 1}));
}

TEST(DealSamples, EqualsEveryDealOfThree) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 200; ++n) {
    std::vector<PipelineEstimate> p;
    for (int k = 0; k < 3; ++k) p.push_back({pick(1, 3), static_cast<double>(pick(0, 20)), static_cast<double>(pick(1, 9))});
    const std::int64_t batch = pick(6, 40);
    const auto slowest = [&](const std::vector<std::int64_t>& m) {
      double all = 0;
      for (std::size_t k = 0; k < 3; ++k) all = std::max(all, p[k].alpha + p[k].tau * static_cast<double>(m[k]));
      return all;
    };
    double best = -1;
    for (std::int64_t a = 1; a * p[0].samples < batch; ++a)
      for (std::int64_t b = 1; a * p[0].samples + b * p[1].samples < batch; ++b) {
        const std::int64_t rest = batch - a * p[0].samples - b * p[1].samples;
        if (rest % p[2].samples != 0) continue;
        const double all = slowest({a, b, rest / p[2].samples});
        if (best < 0 || all < best) best = all;
      }
    const std::vector<std::int64_t> found = deal_samples(p, batch);
    ASSERT_EQ(found.empty(), best < 0);
    if (!found.empty()) {
      EXPECT_EQ(slowest(found), best);
    }
  }
}

/// Two groups have one device each, the second at a third of the speed. This makes 1 + 1/3 devices for 16 samples, 12
/// per device.
TEST(WorkBound, WeighsSlowDevicesByTheirSpeed) {
  const std::string join = "], inter_group: {bandwidth: 100Gb/s, latency: 5us}}";
  const std::string one = "{nodes: 1, devices_per_node: 1, device: v100-sxm-32gb}";
  const Fixture alone("{nodes: 1, devices_per_node: 1, device: v100-sxm-32gb}");
  const Fixture mixed("{groups: [" + one +
                      ", {nodes: 1, devices_per_node: 1, device: v100-sxm-32gb, speed: {\"node:1\": 0.3333333333333333}}" + join);
  const auto of_one = static_cast<double>(work_bound_ns(alone.problem));
  EXPECT_NEAR(static_cast<double>(work_bound_ns(mixed.problem)), of_one * 12 / 16, 1e-3 * of_one);
  // A group that hardly moves changes nothing.
  const Fixture hopeless("{groups: [" + one +
                         ", {nodes: 1, devices_per_node: 1, device: v100-sxm-32gb, speed: {\"node:1\": 0.000001}}" + join);
  EXPECT_NEAR(static_cast<double>(work_bound_ns(hopeless.problem)), of_one, 1e-3 * of_one);
}

/// Devices at twice the speed count as twice as many; equal groups count as one group of all devices.
TEST(WorkBound, AddsWhatDevicesCanDo) {
  const std::string join = "], inter_group: {bandwidth: 100Gb/s, latency: 5us}}";
  const std::string two = "{nodes: 1, devices_per_node: 2, device: a100-sxm-40gb}",
                    four = "{nodes: 1, devices_per_node: 4, device: a100-sxm-40gb}";
  const Fixture one("{nodes: 1, devices_per_node: 4, device: a100-sxm-40gb}"), halves("{groups: [" + two + ", " + two + join),
      fast("{groups: [" + two + ", {nodes: 1, devices_per_node: 2, device: a100-sxm-40gb, speed: {\"node:1\": 3}}" + join),
      both("{groups: [" + four + ", " + four + join);
  const auto bound = static_cast<double>(work_bound_ns(one.problem));
  EXPECT_GT(bound, 0);
  EXPECT_NEAR(static_cast<double>(work_bound_ns(halves.problem)), bound, 2);
  EXPECT_NEAR(static_cast<double>(work_bound_ns(both.problem)), bound / 2, 2);
  EXPECT_NEAR(static_cast<double>(work_bound_ns(fast.problem)), bound / 2, 1e-3 * bound);  // 2 + 2·3 = 8 devices
}

/// Twice the samples double the bound, except for the gain of larger kernels.
TEST(WorkBound, GrowsWithTheBatch) {
  Fixture f("{nodes: 1, devices_per_node: 2, device: a100-sxm-40gb}");
  const auto once = static_cast<double>(work_bound_ns(f.problem));
  f.problem.training.global_batch *= 2;
  EXPECT_NEAR(static_cast<double>(work_bound_ns(f.problem)), 2 * once, 0.1 * once);
}

/// Measured times need not grow when work is cut up, so the bound takes the least cost of a token at any count. With
/// 1 ms for 512 tokens and 2 ms for 2048, a token takes at least 1 ms / 1536. This holds for each of the three parts
/// of every operator.
TEST(WorkBound, OfAProfileIsWhatATokenCostsAtLeast) {
  Fixture f("{nodes: 1, devices_per_node: 2, device: a100-sxm-40gb}");
  auto measured = std::make_shared<profile::MeasuredOperators>();
  double operators = 0;
  for (const std::int32_t index : f.model.layers) {
    const LayerKind& kind = f.model.kinds[static_cast<std::size_t>(index)];
    for (const Operator& op : kind.operators) {
      if (op.kind == OperatorKind::dropout) continue;
      operators += 1;
      for (const std::int64_t samples : {1, 4}) {
        const double seconds = samples == 1 ? 1e-3 : 2e-3;
        measured->add(
            {profile::work_on_rank(kind, op, Strategy{}, f.model.vocabulary, 512, samples), {seconds, seconds, seconds}});
      }
    }
  }
  EngineModel engine = *f.problem.engine;
  engine.measured = measured;
  f.problem.engine = &engine;
  const double expected = 16 * 512 * operators * 3 * (1e-3 / 1536) / 2;
  EXPECT_NEAR(static_cast<double>(work_bound_ns(f.problem)) * 1e-9, expected, 2e-4 * expected);
}

}  // namespace
}  // namespace espalier::search
