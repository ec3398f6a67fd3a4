// SPDX-License-Identifier: Apache-2.0
#include "search/replica_paces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "search/test_fixture.h"

namespace espalier::search {
namespace {

using test::Fixture;

constexpr const char* kTwoKinds =
    "{groups: [{nodes: 1, devices_per_node: 2, device: a100-sxm-40gb}, {nodes: 1, devices_per_node: 2, device: v100-sxm-32gb}],"
    " inter_group: {bandwidth: 100Gb/s, latency: 5us}}";

/// Builds four replicas of one stage, with the given samples per micro-batch on each of the two kinds.
Plan replicas(const Fixture& f, ZeroStage zero, std::int64_t fast, std::int64_t slow) {
  Plan plan;
  plan.training = f.problem.training;
  plan.engine = "generic";
  Pipeline& pipeline = plan.only_pipeline();
  Strategy s;
  s.dp = 4;
  s.zero = zero;
  s.shard = zero == ZeroStage::none ? 1 : 4;
  pipeline.samples = plan.training.global_batch;
  pipeline.schedule.micro_batch = static_cast<std::int32_t>((fast + slow) / 2);
  pipeline.schedule.microbatches = static_cast<std::int32_t>(plan.training.global_batch / (2 * (fast + slow)));
  Stage stage;
  stage.devices = {{0, 4, 1}};
  stage.chunks = {{{{0, static_cast<std::int32_t>(f.model.layers.size()) - 1, s}}}};
  stage.samples_per_replica = {fast, fast, slow, slow};
  pipeline.stages = {stage};
  return plan;
}

/// A priced stage takes the time of the slower kind with its samples for each pass. This also holds with parameters
/// that are gathered in every pass.
TEST(ReplicaPaces, AreThoseOfPrices) {
  const Fixture f(kTwoKinds);
  const cost::ClusterCosts costs = f.costs();
  for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::parameters})
    for (const auto& [fast, slow] : {std::pair{3, 1}, {2, 2}, {1, 3}, {6, 2}}) {
      const Plan plan = replicas(f, zero, fast, slow);
      ReplicaPaces paces(f.model, costs, replicas(f, zero, 2, 2).only_pipeline(), {0, 1});
      const ReplicaPace stage = paces.of_stage({fast, slow});
      EXPECT_EQ(stage.forward, std::max(paces.of(0, fast).forward, paces.of(1, slow).forward));
      Program program;
      const cost::Costs priced = cost::price(costs, plan, program);
      for (std::size_t i = 0; i < program.works.size(); ++i) {
        const WorkId id(static_cast<std::int32_t>(i));
        const std::int64_t ns = priced.works[id].time.duration_ns();
        if (program.works[id].phase == InstructionKind::forward) {
          EXPECT_EQ(ns, stage.forward) << fast << " and " << slow;
        }
        if (program.works[id].phase == InstructionKind::backward) {
          EXPECT_EQ(ns, stage.backward) << fast << " and " << slow;
        }
      }
    }
}

/// More samples take longer, but less than proportionally.
TEST(ReplicaPaces, GrowWithSamples) {
  const Fixture f(kTwoKinds);
  const cost::ClusterCosts costs = f.costs();
  ReplicaPaces paces(f.model, costs, replicas(f, ZeroStage::none, 2, 2).only_pipeline(), {0, 1});
  for (const std::size_t g : {std::size_t{0}, std::size_t{1}})
    for (std::int64_t samples = 1; samples < 12; ++samples) {
      EXPECT_LT(paces.of(g, samples).both(), paces.of(g, samples + 1).both());
      EXPECT_LE(paces.of(g, 2 * samples).both(), 2 * paces.of(g, samples).both());
    }
  EXPECT_LT(paces.of(0, 4).both(), paces.of(1, 4).both());
}

}  // namespace
}  // namespace espalier::search
