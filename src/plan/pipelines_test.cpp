// SPDX-License-Identifier: Apache-2.0
// Tests documents of version 2: several pipelines, unequal shares and the fields that have no price yet. A document
// of version 1 is read as one pipeline.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/document.h"
#include "plan/generators.h"
#include "plan/test_documents.h"

namespace espalier::plan_test::pipelines_test {
namespace {

using plan_test::error_of;
using plan_test::replaced;

/// Returns eight layers on two stages: TP 2 · DP 2, ZeRO 1 over the two replicas, 4 micro-batches of 1 · 2 samples.
Plan small() {
  Strategy s;
  s.tp = 2;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  Plan plan;
  plan.engine = "generic";
  plan.training.sequence.main = 64;
  plan.training.global_batch = 8;
  Pipeline& pipeline = plan.only_pipeline();
  pipeline.schedule = {ScheduleKind::one_f_one_b, 2, 1, 4, 1};
  pipeline.samples = 8;
  pipeline.stages = {{{{0, 4, 1}}, {Chunk{{{0, 3, s}}}}}, {{{4, 4, 1}}, {Chunk{{{4, 7, s}}}}}};
  return plan;
}

/// Returns that plan with a second pipeline of one stage on eight further devices, which takes 4 of 12 samples.
Plan two_pipelines() {
  Plan plan = small();
  plan.training.global_batch = 12;
  Strategy s = plan.strategy();
  s.dp = 4;
  s.shard = 4;
  plan.pipelines.push_back({7, {ScheduleKind::one_f_one_b, 1, 1, 1, 1}, 4, {{{{8, 8, 1}}, {Chunk{{{0, 7, s}}}}}}});
  return plan;
}

Strategy& first_strategy(Plan& plan) { return plan.pipelines.front().stages.front().chunks.front().ranges.front().strategy; }

void expect_round_trip(const Plan& plan) {
  const Status fault = validate(plan);
  ASSERT_TRUE(fault.ok()) << fault.error().message();
  const std::string text = to_json(plan);
  const Result<Plan> back = plan_from_json(text, "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message() << text;
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(to_json(*back), text);
  EXPECT_EQ(content_hash(*back), content_hash(plan));
}

struct Beyond {
  std::string where;
  void (*change)(Plan&);
};
const std::vector<Beyond>& beyond() {
  static const std::vector<Beyond> all = {
      {"$.pipelines",
       [](Plan& p) {
         p = two_pipelines();
         p.engine = "megatron-core";  // its stages must be alike
       }},
      {"$.pipelines[0].stages[1].samples_per_replica",
       [](Plan& p) {
         p.only_pipeline().stages[1].samples_per_replica = {2, 0};
       }},
      {"$.pipelines[0].stages[0].state_shares",
       [](Plan& p) {
         p.only_pipeline().stages[0].state_shares = {3, 0};
       }},
      {"$.pipelines[0].stages[0].layers[0].strategy.overlap.ep", [](Plan& p) { first_strategy(p).overlap.ep = true; }},
      {"$.precision.moments",
       [](Plan& p) {
         p.precision = StatePrecision{Precision::bf16, Precision::fp32, Precision::bf16, Precision::bf16};
       }},
      {"$.precision.gradients", [](Plan& p) {
         p.precision = StatePrecision{Precision::bf16, Precision::bf16, Precision::fp32, Precision::bf16};
       }}};
  return all;
}

TEST(Pipelines, EveryFieldIsHeldAndRefusedByName) {
  EXPECT_TRUE(unsupported(small()).ok());
  for (const Beyond& b : beyond()) {
    Plan plan = small();
    b.change(plan);
    expect_round_trip(plan);
    EXPECT_NE(plan.canonical_text(), small().canonical_text()) << b.where;
    EXPECT_NE(content_hash(plan), content_hash(small())) << b.where;
    const Status refused = unsupported(plan);
    ASSERT_FALSE(refused.ok()) << b.where;
    EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(refused.error().where, b.where);
    EXPECT_FALSE(refused.error().found.empty() || refused.error().expected.empty() || refused.error().hint.empty());
  }
}

TEST(Pipelines, EnginesOfUnlikeStagesRunSeveral) {
  Plan plan = two_pipelines();
  EXPECT_EQ(plan.engine, "generic");
  EXPECT_TRUE(unsupported(plan).ok());
  for (std::size_t k = 0; k < plan.pipelines.size(); ++k) {
    const Plan alone = plan.alone(k);
    EXPECT_EQ(alone.only_pipeline(), plan.pipelines[k]);
    EXPECT_EQ(alone.training.global_batch, plan.pipelines[k].samples);
  }
}

TEST(Pipelines, VersionOneSaysOnePipelineAndNothingBeyondIt) {
  const Plan plan = small();
  const std::string text = to_json(plan, PlanSchema::one);
  EXPECT_NE(text.find("\"espalier.plan/1\""), std::string::npos);
  EXPECT_EQ(text.find("pipelines"), std::string::npos);
  EXPECT_EQ(text.find("modules"), std::string::npos);
  const Result<Plan> back = plan_from_json(text, "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(content_hash(*back), content_hash(plan));
  for (const Beyond& b : beyond()) {
    Plan more = small();
    b.change(more);
    EXPECT_TRUE(unwritable(more, PlanSchema::two).ok()) << b.where;
    const Status refused = unwritable(more, PlanSchema::one);
    ASSERT_FALSE(refused.ok()) << b.where;
    EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
    EXPECT_EQ(refused.error().where, b.where);
  }
}

// Modules have a price, but version 1 cannot express them.
TEST(Pipelines, ModulesAreNamedAndHaveAPrice) {
  Plan plan = small();
  first_strategy(plan).recompute = {RecomputeKind::selective, 0, {RecomputeModule::moe_act, RecomputeModule::layernorm}};
  expect_round_trip(plan);
  EXPECT_TRUE(unsupported(plan).ok());
  EXPECT_NE(plan.label().find("+selective(layernorm,moe_act)"), std::string::npos) << plan.label();
  EXPECT_NE(plan.canonical_text().find("modules layernorm,moe_act"), std::string::npos);
  const Status refused = unwritable(plan, PlanSchema::one);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "$.pipelines[0].stages");
  EXPECT_NE(error_of(replaced(to_json(plan), "\"moe_act\"", "\"moe_activation\"")).message().find("core_attn, layernorm, act"),
            std::string::npos);
  first_strategy(plan).recompute.kind = RecomputeKind::none;
  ASSERT_FALSE(validate(plan).ok());
  EXPECT_NE(validate(plan).error().found.find("modules layernorm,moe_act with recompute none"), std::string::npos);
}

// The id of a pipeline changes no figure, but version 1 cannot express it.
TEST(Pipelines, AnotherIdHasAPriceAndNoPlaceInVersionOne) {
  Plan plan = small();
  plan.only_pipeline().id = 5;
  expect_round_trip(plan);
  EXPECT_TRUE(unsupported(plan).ok());
  const Status refused = unwritable(plan, PlanSchema::one);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "$.pipelines[0].id");
}

TEST(Pipelines, PlacesAreThoseOfTheDocument) {
  const std::string one = to_json(small(), PlanSchema::one), two = to_json(small());
  EXPECT_EQ(error_of(replaced(one, "\"4-7\"", "\"4-6\"")).where, "plan.json: $.stages[1]");
  EXPECT_EQ(error_of(replaced(two, "\"4-7\"", "\"4-6\"")).where, "plan.json: $.pipelines[0].stages[1]");
  EXPECT_NE(error_of(replaced(one, "\"share\": 1.0", "\"share\": 0.5")).where.find("share"), std::string::npos);
  for (const char* field : {"\"modules\": [], ", "\"ep\": false, "})
    EXPECT_NE(error_of(replaced(one, "\"grad_reduce\"", field + std::string("\"grad_reduce\""))).message().find("nknown"),
              std::string::npos);
  EXPECT_EQ(error_of(replaced(two, "\"samples\": 8", "\"samples\": 6")).where, "plan.json: $.pipelines[0].schedule");
}

// Equal shares and the engine's own types are the defaults of a plan that omits them.
TEST(Pipelines, WhatIsEqualIsReadAsNone) {
  const std::string text = to_json(small());
  for (const char* list : {"\"samples_per_replica\": [1, 1], ", "\"state_shares\": [5, 5], "}) {
    const Result<Plan> plan = plan_from_json(replaced(text, "\"layers\"", list + std::string("\"layers\"")), "plan.json");
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(*plan, small());
  }
  for (const char* list : {"[1, -1]", "[1.5]", "[\"1\"]", "[]", "7", "null", "[2, 0, 0]", "[1, 2]", "[0, 0]"})
    EXPECT_NE(error_of(replaced(text, "\"layers\"", "\"samples_per_replica\": " + std::string(list) + ", \"layers\"")).message(),
              "");
  EXPECT_NE(text.find("\"moments\": \"fp32\""), std::string::npos) << text;
  EXPECT_EQ(error_of(replaced(text, "\"moments\": \"fp32\"", "\"moments\": \"fp64\"")).found, "\"fp64\"");
}

TEST(Pipelines, AllPipelinesTogetherAreOneStep) {
  const auto where = [](void (*change)(Plan&)) {
    Plan plan = two_pipelines();
    change(plan);
    const Status fault = validate(plan);
    return !fault.ok() ? fault.error().where : "sound";
  };
  EXPECT_EQ(where([](Plan&) {}), "sound");
  EXPECT_EQ(where([](Plan& p) { p.training.global_batch = 16; }), "$.pipelines");
  EXPECT_EQ(where([](Plan& p) { p.pipelines[1].id = 0; }), "$.pipelines[1].id");
  EXPECT_EQ(where([](Plan& p) { p.pipelines[1].samples = 8; }), "$.pipelines[1].schedule");
  EXPECT_EQ(where([](Plan& p) { p.pipelines[1].stages[0].devices = {{4, 8, 1}}; }), "$.pipelines");
  EXPECT_EQ(where([](Plan& p) { p.pipelines[1].stages[0].chunks[0].ranges[0].last = 6; }), "$.pipelines[1]");
  EXPECT_EQ(two_pipelines().label(), "2 pipelines: " + small().label() + " | TP2 CP1 PP1 DP4 ZeRO-1 mb1");
  EXPECT_THROW((void)two_pipelines().only_pipeline(), std::exception);
}

// Stage 0 runs on devices 4 to 7 and stage 1 on 0 to 3. Then the tensor groups are {0, 4}, {1, 5}, {2, 6} and {3, 7},
// the last one also written as two single devices: a label shows four ranges. The usual rank order is not shown.
TEST(Pipelines, ALabelShowsDevicesInAnOrderOfTheirOwn) {
  Plan plan = small();
  const std::string label = plan.label();
  EXPECT_EQ(label.find("devices"), std::string::npos);
  plan.only_pipeline().stages[0].devices = {{4, 4, 1}};
  plan.only_pipeline().stages[1].devices = {{0, 4, 1}};
  EXPECT_EQ(plan.label(), label + " on devices 4-7, 0-3");
  plan.only_pipeline().stages[0].devices = {{0, 2, 4}, {1, 2, 4}};
  plan.only_pipeline().stages[1].devices = {{2, 2, 4}, {3, 2, 4}};
  EXPECT_EQ(plan.label(), label + " on devices 0-4:4, 1-5:4, 2-6:4, 3-7:4");
  plan.only_pipeline().stages[1].devices = {{2, 2, 4}, {3, 1, 1}, {7, 1, 1}};
  EXPECT_EQ(plan.label(), label + " on devices 0-4:4, 1-5:4, 2-6:4, 3, …");
}

/// Returns a generated plan with some of the features that version 2 adds to one pipeline.
Plan any_plan() {
  Plan plan = plan_test::any_layered_plan();
  for (Stage& stage : plan.only_pipeline().stages) {
    const Strategy& s = stage.chunks.front().ranges.front().strategy;
    bool alike = true;
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) alike = alike && range.strategy.dp == s.dp && range.strategy.shard == s.shard;
    if (!alike || *rc::gen::arbitrary<bool>()) continue;
    if (s.dp > 1) {
      stage.samples_per_replica.assign(static_cast<std::size_t>(s.dp), 0);
      stage.samples_per_replica.back() = plan.samples_per_microbatch();
    }
    if (s.shard > 1) {
      stage.state_shares.assign(static_cast<std::size_t>(s.shard), 2);
      stage.state_shares.front() = *rc::gen::inRange(3, 9);
    }
  }
  if (first_strategy(plan).recompute.kind == RecomputeKind::selective && *rc::gen::arbitrary<bool>())
    first_strategy(plan).recompute.modules = {RecomputeModule::core_attn, RecomputeModule::mlp};
  first_strategy(plan).overlap.ep = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>())
    plan.precision = StatePrecision{Precision::fp8, Precision::bf16, Precision::fp8, Precision::fp8};
  if (*rc::gen::arbitrary<bool>()) return plan;
  Pipeline second = plan.only_pipeline();  // an equal pipeline on other devices
  second.id = 3;
  for (Stage& stage : second.stages)
    for (DeviceRange& range : stage.devices) range.first += 1 << 10;
  plan.training.global_batch += second.samples;
  plan.pipelines.push_back(std::move(second));
  return plan;
}

TEST(Pipelines, WhatIsWrittenIsReadBackEqual) {
  EXPECT_TRUE(rc::check("plan_from_json(to_json(plan)) == plan in both versions", [] {
    const Plan plan = any_plan();
    const Status fault = validate(plan);
    RC_ASSERT(fault.ok());
    for (const PlanSchema schema : {PlanSchema::one, PlanSchema::two}) {
      if (!unwritable(plan, schema).ok()) continue;
      const std::string text = to_json(plan, schema);
      const Result<Plan> back = plan_from_json(text, "plan.json");
      RC_ASSERT(back.ok());
      RC_ASSERT(*back == plan);
      RC_ASSERT(to_json(*back, schema) == text);
      RC_ASSERT(content_hash(*back) == content_hash(plan));
    }
  }));
}

}  // namespace
}  // namespace espalier::plan_test::pipelines_test
