// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "plan/generators.h"
#include "plan/rules.h"
#include "plan/test_problem.h"

namespace espalier {
namespace {

using Ranges = std::vector<DeviceRange>;

Plan plan_with(const Strategy& s, const Schedule& c, std::int64_t devices) {
  return make_uniform_plan(plan_test::decoder({}), plan_test::cluster(1, devices), plan_test::training(64, 8), "generic", s, c,
                           SplitPolicy::balanced);
}

// There are 8 devices, tp 2, dp 2, pp 2. In the default order stage 0 = 0 … 3, stage 1 = 4 … 7. With pp inside dp,
// device = t + 2·(p + 2·d), so stage 0 = {0, 1, 4, 5} and stage 1 = {2, 3, 6, 7}.
TEST(UniformPlan, DevicesByRankOrder) {
  Strategy s;
  s.tp = 2;
  s.dp = 2;
  const Schedule c{ScheduleKind::one_f_one_b, 2, 1, 4, 1};
  Plan plan = plan_with(s, c, 8);
  EXPECT_EQ(plan.only_pipeline().stages[0].devices, (Ranges{{0, 4, 1}}));
  EXPECT_EQ(plan.only_pipeline().stages[1].devices, (Ranges{{4, 4, 1}}));
  s.order = RankOrder::tp_cp_pp_dp;
  plan = plan_with(s, c, 8);
  EXPECT_EQ(plan.only_pipeline().stages[0].devices, (Ranges{{0, 2, 1}, {4, 2, 1}}));
  EXPECT_EQ(plan.only_pipeline().stages[1].devices, (Ranges{{2, 2, 1}, {6, 2, 1}}));
  s.tp = 1;
  s.dp = 4;
  plan = plan_with(s, {ScheduleKind::one_f_one_b, 2, 1, 2, 1}, 8);
  EXPECT_EQ(plan.only_pipeline().stages[0].devices, (Ranges{{0, 4, 2}}));  // one strided range
  EXPECT_EQ(plan.only_pipeline().stages[1].devices, (Ranges{{1, 4, 2}}));
}

// 10 layers run on 2 stages. The embedding costs nothing, a block (h 128, ffn 512, s 64) costs 2·(4·128² +
// 2·128·512)·64 + attention. The head costs 2·128·1000·64, about 0.65 of a block. That is 4.3 per stage, with the
// boundary after the embedding and 4 blocks.
TEST(UniformPlan, LayersCoverTheModelInPipelineOrder) {
  const Plan plan = plan_with({}, {ScheduleKind::one_f_one_b, 2, 1, 8, 1}, 2);
  EXPECT_EQ(plan.only_pipeline().stages[0].chunks[0].first(), 0);
  EXPECT_EQ(plan.only_pipeline().stages[0].chunks[0].last(), 4);
  EXPECT_EQ(plan.only_pipeline().stages[1].chunks[0].first(), 5);
  EXPECT_EQ(plan.only_pipeline().stages[1].chunks[0].last(), 9);
  EXPECT_EQ(plan.model_summary.substr(0, 17), "llama, 8 blocks, ");
  EXPECT_EQ(plan.cluster_summary, "1 × 2 toy");
}

// With zb-v on 2 stages, stage 0 holds the first and the last of 4 chunks.
TEST(UniformPlan, VShapedPlacement) {
  const Plan plan = plan_with({}, {ScheduleKind::zb_v, 2, 2, 8, 1}, 2);
  EXPECT_EQ(plan.only_pipeline().stages[0].chunks[0].first(), 0);
  EXPECT_EQ(plan.only_pipeline().stages[0].chunks[1].last(), 9);
  EXPECT_EQ(plan.only_pipeline().stages[1].chunks[0].last() + 1, plan.only_pipeline().stages[1].chunks[1].first());
}

TEST(UniformPlan, LegalConfigurationsMakeValidPlans) {
  const Model model = plan_test::decoder({8, 8, 4, 16, 512, 1000, 4, 256});
  const Cluster cluster = plan_test::cluster(2, 8);
  const Training training = plan_test::training(64, 32);
  const RuleFacts facts = rule_facts(model, cluster, training);
  int legal = 0;
  EXPECT_TRUE(rc::check("validate() accepts every legal configuration, and stages are disjoint runs of all devices", [&] {
    for (const auto& [s, c] : *plan_test::many(plan_test::likely_configuration(16, 32))) {
      if (!is_legal(facts, s, c)) continue;
      ++legal;
      for (const SplitPolicy policy : {SplitPolicy::balanced, SplitPolicy::even_blocks, SplitPolicy::cumulative}) {
        const Plan plan = make_uniform_plan(model, cluster, training, "generic", s, c, policy);
        const Status status = validate(plan);
        RC_ASSERT(status.ok());
        std::int64_t devices = 0, top = 0;
        for (const Stage& stage : plan.only_pipeline().stages) {
          for (const DeviceRange& r : stage.devices) {
            devices += r.count;
            top = std::max(top, r.first + (r.count - 1) * r.stride);
          }
        }
        RC_ASSERT(devices == 16 && top == 15);
      }
    }
  }));
  EXPECT_GT(legal, 100);
}

}  // namespace
}  // namespace espalier
