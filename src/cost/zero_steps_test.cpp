// SPDX-License-Identifier: Apache-2.0
// ZeRO's traffic, by hand on round devices: a byte on a link takes a nanosecond.
#include "cost/zero_steps.h"

#include <gtest/gtest.h>

#include "cost/test_problem.h"
#include "cost/zero_buffers.h"
#include "plan/engine.h"

namespace espalier::cost::zero_steps_test {
namespace {

using namespace test;

constexpr double kElements = 2 * 64 * 256;  // the elements of cost::test::mlp()

/// Holds a generic engine on 4 round devices: 2 bytes per gathered parameter, 4 per reduced gradient.
struct Problem {
  explicit Problem(std::int32_t zero, bool overlap, std::int32_t shard = 4) {
    s.dp = 4;
    s.zero = ZeroStage{zero};
    s.shard = shard;
    s.overlap.param_gather = s.overlap.grad_reduce = overlap;
    layer_costs(context, s, 1, 1, layers);
    states.reduce = 4;
    states.gather = 2;
  }
  Strategy s;
  Model model = model_of(mlp());
  Cluster cluster = round_cluster(4);
  CostContext context{model, cluster, tokens(1000, 4), plain_engine("generic")};
  StatePolicy states = states_of(plain_engine("generic"), context.workload.training);
  std::vector<LayerCost> layers;
  [[nodiscard]] ZeroTraffic traffic(double experts = 0) const {
    return zero_traffic(context.fabric, data_groups(context.fabric, s, 1), s, states,
                        {static_cast<std::int64_t>(kElements), static_cast<std::int64_t>(experts)});
  }
  [[nodiscard]] ZeroTime time() const {
    return zero_time(context, data_groups(context.fabric, s, 1), s, states, layers[0], ChunkEdges::exposed);
  }
};

// ZeRO 3 over 4 ranks gathers 32,768 weights of 2 bytes, 65,536 bytes of which ¾ come from others: 49,152 ns. It
// scatters their gradients of 4 bytes, 131,072 bytes: 98,304 ns. Forward gathers; backward gathers and scatters.
TEST(ZeroSteps, OfALayerByHand) {
  const Problem p(3, false);
  const ZeroTraffic traffic = p.traffic();
  EXPECT_EQ(traffic.gathers[0].traffic, (Traffic{CollectiveKind::all_gather, GroupKind::data_shard, 65536, 1}));
  EXPECT_EQ(traffic.reductions[0].traffic, (Traffic{CollectiveKind::reduce_scatter, GroupKind::data_shard, 131072, 1}));
  EXPECT_NEAR(traffic.gather_s(), 49152e-9, 1e-15);
  EXPECT_NEAR(traffic.reduce_s(), 98304e-9, 1e-15);
  const ZeroSteps steps = zero_steps(p.s, traffic);
  ASSERT_EQ(steps.forward.size(), 1u);
  ASSERT_EQ(steps.backward.size(), 2u);
  EXPECT_EQ(steps.forward[0].step.placement, Placement::before);
  EXPECT_EQ(steps.backward[0].step.placement, Placement::before);
  EXPECT_EQ(steps.backward[1].step.placement, Placement::after);
  EXPECT_EQ(steps.backward[1].step.part, StepPart::weight_gradient);
  double backward = 0;
  for (const auto& timed : steps.backward) backward += timed.step.traffic.total();
  EXPECT_EQ(backward, 65536 + 131072);
}

// Without overlap all of it is exposed: 49,152 forward, 49,152 + 98,304 backward.
TEST(ZeroSteps, WithoutOverlapAllOfItIsExposed) {
  const ZeroTime z = Problem(3, false).time();
  EXPECT_EQ(z.forward.exposed_ns, 49152);
  EXPECT_EQ(z.backward.exposed_ns, 49152 + 98304);
  EXPECT_EQ(z.gather_ns, 0);
}

// Forward has 65,536 ns of compute, backward 131,072: the gather is hidden, and 131,072 of the 147,456 ns backward
// are. At the edges of a chunk the first gather and the last reduction run alone.
TEST(ZeroSteps, BesideTheLayer) {
  const Problem p(3, true);
  const ZeroTime z = p.time();
  EXPECT_EQ(z.forward.exposed_ns, 0);
  EXPECT_EQ(z.forward.hidden_ns, 49152);
  EXPECT_EQ(z.backward.exposed_ns, 147456 - 131072);
  EXPECT_EQ(z.backward.hidden_ns, 131072);
  EXPECT_EQ(z.gather_ns, 49152);
  EXPECT_EQ(z.reduce_ns, 98304);
  for (const auto& timed : zero_steps(p.s, p.traffic()).backward) EXPECT_EQ(timed.step.placement, Placement::beside);
}

// A second set of as many weights under the same compute is like a copy of a token table next to the layer that uses
// it. Forward, 98,304 ns of gathers meet 65,536 of compute: the layer's 49,152 are hidden, and 16,384 of the second;
// 32,768 are not. Backward, the layer's collectives fill all of the compute: nothing of the second is hidden.
TEST(ZeroSteps, ComputeHidesNothingTwice) {
  const Problem p(3, true);
  const DataGroups groups = data_groups(p.context.fabric, p.s, 1);
  const HiddenTraffic before = hidden_traffic(p.context.fabric, groups, p.s, p.states, p.layers[0].elements());
  EXPECT_EQ(before.gathers.moved, 49152);
  EXPECT_EQ(before.reductions.moved, 98304);
  const ZeroTime second = zero_time(p.context, groups, p.s, p.states, p.layers[0], ChunkEdges::exposed, before);
  EXPECT_EQ(second.forward.exposed_ns, 32768);
  EXPECT_EQ(second.forward.hidden_ns, 16384);
  EXPECT_EQ(second.backward.exposed_ns, 147456);
  EXPECT_EQ(second.backward.hidden_ns, 0);
  EXPECT_EQ(second.gather_ns, 49152);
}

// Exposed collectives leave the compute to what follows.
TEST(ZeroSteps, ExposedTrafficHidesNothing) {
  const Problem p(3, false);
  const HiddenTraffic before =
      hidden_traffic(p.context.fabric, data_groups(p.context.fabric, p.s, 1), p.s, p.states, p.layers[0].elements());
  EXPECT_EQ(before.gathers.seconds, 0);
  EXPECT_EQ(before.reductions.seconds, 0);
}

// A quarter of the model stays gathered from the forward to the backward pass: 65,536 · ¾ bytes are gathered again,
// 36,864 ns in place of 49,152. With all of it kept, the backward pass gathers nothing.
TEST(ZeroSteps, WhatStaysGatheredIsNotGatheredAgain) {
  const Problem p(3, false);
  DataGroups groups = data_groups(p.context.fabric, p.s, 1);
  groups.gathers_again = 0.75;
  const ZeroTime z = zero_time(p.context, groups, p.s, p.states, p.layers[0], ChunkEdges::exposed);
  EXPECT_EQ(z.forward.exposed_ns, 49152);
  EXPECT_EQ(z.backward.exposed_ns, 36864 + 98304);
  const ZeroTraffic traffic = zero_traffic(p.context.fabric, groups, p.s, p.states, {static_cast<std::int64_t>(kElements), 0});
  EXPECT_EQ(traffic.regathers[0].traffic, (Traffic{CollectiveKind::all_gather, GroupKind::data_shard, 49152, 1}));
  groups.gathers_again = 0;
  EXPECT_EQ(zero_time(p.context, groups, p.s, p.states, p.layers[0], ChunkEdges::exposed).backward.exposed_ns, 98304);
  EXPECT_EQ(zero_steps(p.s, zero_traffic(p.context.fabric, groups, p.s, p.states, p.layers[0].elements())).backward.size(), 1u);
}

// The model is one layer of 32,768 elements. A quarter of it stays if 8,192 elements are live, or if the reuse distance
// is twice as long. All elements after a parameter are used twice before it is used again.
TEST(ZeroSteps, TheShareThatIsGatheredAgainFollowsFromTheLiveElements) {
  const auto again = [](const char* engine) {
    Problem p(3, false);
    const EngineModel& named = *find_engine(engine);
    p.context.engine = &named;
    return gathers_again(p.context, p.s, 1, p.layers);
  };
  EXPECT_EQ(again("deepspeed"), 0);
  EXPECT_EQ(again("generic"), 1);
  EXPECT_DOUBLE_EQ(again("deepspeed+live-parameters=8192+reuse-distance=0"), 0.75);
  EXPECT_DOUBLE_EQ(again("deepspeed+live-parameters=0+reuse-distance=16384"), 0.75);
  EXPECT_DOUBLE_EQ(again("deepspeed+live-parameters=0+reuse-distance=0"), 1);
}

TEST(ZeroSteps, StageTwoScattersOnlyAndStageOneNothing) {
  const Problem two(2, false), one(1, false);
  EXPECT_TRUE(zero_steps(two.s, two.traffic()).forward.empty());
  EXPECT_EQ(zero_steps(two.s, two.traffic()).backward.size(), 1u);
  EXPECT_TRUE(zero_steps(one.s, one.traffic()).backward.empty());
}

// A rank has 1,000 expert elements, which 4 ranks hold. They are sharded with the dense weights over all of these
// ranks, with their own gather and scatter. Nothing is left to reduce over replicas of a shard. Over 2 of 4 ranks
// (hybrid) that is part of the end of the step.
TEST(ZeroSteps, ExpertsShardWithTheDenseWeights) {
  const Problem whole(3, false), hybrid(3, false, 2);
  const ZeroTraffic all = whole.traffic(1000);
  EXPECT_EQ(all.gathers[1].traffic, (Traffic{CollectiveKind::all_gather, GroupKind::expert_shard, 2000, 1}));
  EXPECT_EQ(all.reductions[1].traffic, (Traffic{CollectiveKind::reduce_scatter, GroupKind::expert_shard, 4000, 1}));
  EXPECT_EQ(zero_steps(whole.s, all).backward.size(), 4u);
  EXPECT_EQ(zero_steps(hybrid.s, hybrid.traffic(1000)).backward.size(), 4u);
}

}  // namespace
}  // namespace espalier::cost::zero_steps_test
