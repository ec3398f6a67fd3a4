// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/document.h"
#include "plan/generators.h"
#include "plan/rules.h"
#include "plan/test_documents.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::plan_json_test {
namespace {

using plan_test::error_of;
using plan_test::replaced;

Plan small() {
  Strategy s;
  s.tp = 2;
  s.dp = 2;
  s.order = RankOrder::tp_cp_pp_dp;
  Plan plan = make_uniform_plan(plan_test::decoder({}), plan_test::cluster(1, 8), plan_test::training(64, 8), "generic", s,
                                {ScheduleKind::one_f_one_b, 2, 1, 4, 1}, SplitPolicy::balanced);
  plan.model_source = base::to_json(base::read_json(R"({"model_type": "llama", "rope_theta": 12345.5})", "config.json")->root);
  plan.model_hash = base::content_hash(plan.model_source);
  return plan;
}

TEST(PlanJson, RoundTripOfOnePlan) {
  const Plan plan = small();
  const std::string text = to_json(plan);
  EXPECT_NE(text.find("\"schema\": \"espalier.plan/2\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"0-1\""), std::string::npos) << text;
  const Result<Plan> back = plan_from_json(text, "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(to_json(*back), text);
}

TEST(PlanJson, RoundTripOfManyPlans) {
  const Model model = plan_test::decoder({8, 8, 4, 16, 512, 1000, 4, 256});
  const Cluster cluster = plan_test::cluster(2, 8);
  Training training = plan_test::training(64, 32);
  const RuleFacts facts = rule_facts(model, cluster, training);
  EXPECT_TRUE(rc::check("plan_from_json(to_json(plan)) == plan", [&] {
    const auto all = *plan_test::many(plan_test::likely_configuration(16, 32));
    const auto it = std::find_if(all.begin(), all.end(), [&facts](const auto& x) { return is_legal(facts, x.first, x.second); });
    if (it == all.end()) return;
    const auto& [s, c] = *it;
    Training t = training;
    t.precision = *rc::gen::element(Precision::fp32, Precision::bf16, Precision::fp8);
    t.tokens = *rc::gen::element(0.0, 1e12, 15.6e12);
    t.moe_imbalance = *rc::gen::element(1.0, 1.3);
    t.sequence = *rc::gen::element(Sequence{64, 0, 0}, Sequence{0, 0, 0}, Sequence{0, 512, 4});
    Plan plan = make_uniform_plan(model, cluster, training, "generic", s, c, SplitPolicy::balanced);
    plan.training = t;
    plan.model_name = *rc::gen::string<std::string>();
    for (char& ch : plan.model_name) ch = static_cast<char>(ch & 0x7f);  // any ASCII, including control characters
    const Result<Plan> back = plan_from_json(to_json(plan), "plan.json");
    if (!back.ok()) RC_FAIL(back.error().message());
    RC_ASSERT(*back == plan);
  }));
}

/// Returns a plan whose stage 0 holds chunks 0 and 2, the first with two ranges.
Plan several_ranges() {
  Strategy s;
  s.dp = 2;
  Plan plan = make_uniform_plan(plan_test::decoder({}), plan_test::cluster(1, 4), plan_test::training(64, 8), "generic", s,
                                {ScheduleKind::interleaved, 2, 2, 4, 1}, SplitPolicy::balanced);
  Chunk& chunk = plan.only_pipeline().stages[0].chunks[0];
  LayerRange second = chunk.ranges.front();
  chunk.ranges.front().last = second.first;
  second.first += 1;
  second.strategy.dp = 1;
  second.strategy.tp = 2;
  chunk.ranges.push_back(second);
  return plan;
}

TEST(PlanJson, RangesNameTheirChunkWhereOneHasSeveral) {
  const Plan plan = several_ranges();
  const std::string text = to_json(plan);
  EXPECT_NE(text.find("{\"chunk\": 0, \"first\": 0, \"last\": 0"), std::string::npos) << text;
  EXPECT_NE(text.find("{\"chunk\": 1, "), std::string::npos) << text;
  // Stage 1 has one range per chunk and needs no number.
  EXPECT_EQ(text.find("\"chunk\"", text.find("\"2-3\"")), std::string::npos) << text;
  const Result<Plan> back = plan_from_json(text, "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, plan);
}

TEST(PlanJson, RefusesChunksOutOfOrder) {
  const std::string text = to_json(several_ranges());
  EXPECT_NE(error_of(replaced(text, "\"chunk\": 1", "\"chunk\": 2")).where.find("chunk"), std::string::npos);
  // There are two chunks, but layers of only one.
  EXPECT_FALSE(error_of(replaced(text, "\"chunk\": 1", "\"chunk\": 0")).where.empty());
  EXPECT_FALSE(error_of(replaced(text, "\"chunk\": 0", "\"chunk\": -1")).where.empty());
  EXPECT_FALSE(
      // There is no chunk before it.
      error_of(replaced(text, "\"chunk\": 0, \"first\": 0", "\"chunk\": 1, \"first\": 0")).where.empty());
}

TEST(PlanJson, RoundTripOfLayerwisePlans) {
  EXPECT_TRUE(rc::check("plan_from_json(to_json(plan)) == plan, with several ranges a chunk", [] {
    const Plan plan = plan_test::any_layered_plan();
    const Status fault = validate(plan);
    if (!fault.ok()) RC_FAIL(fault.error().message());
    const std::string text = to_json(plan);
    const Result<Plan> back = plan_from_json(text, "plan.json");
    if (!back.ok()) RC_FAIL(back.error().message() + text);
    RC_ASSERT(*back == plan);
    RC_ASSERT(to_json(*back) == text);
    RC_ASSERT(!plan.label().empty());
    std::int32_t layers = 0, last = 0;
    for (const StrategyCount& c : strategy_counts(plan)) layers += c.layers;
    for (const Stage& stage : plan.only_pipeline().stages) {
      for (const Chunk& chunk : stage.chunks) last = std::max(last, chunk.last());
    }
    RC_ASSERT(layers == last + 1);  // the runs lose no layer
  }));
}

TEST(PlanJson, RefusesWhatItDoesNotKnow) {
  const std::string text = to_json(small());
  EXPECT_NE(error_of(replaced(text, "\"engine\"", "\"motor\"")).message().find("engine"), std::string::npos);
  EXPECT_EQ(error_of(replaced(text, "espalier.plan/2", "espalier.plan/9")).found, "\"espalier.plan/9\"");
  EXPECT_FALSE(error_of(replaced(text, "\"etp\": 1", "\"etp\": 1, \"colour\": 2")).where.empty());
  EXPECT_FALSE(error_of(replaced(text, "\"tp\": 2", "\"tp\": -2")).where.empty());
  EXPECT_FALSE(error_of(replaced(text, "\"tp\": 2", "\"tp\": 1e99")).where.empty());
  EXPECT_FALSE(error_of(replaced(text, "\"1f1b\"", "\"2f2b\"")).where.empty());
  EXPECT_FALSE(error_of(replaced(text, "\"bf16\"", "16")).where.empty());
  EXPECT_FALSE(error_of(text.substr(0, text.size() / 2)).where.empty());
  EXPECT_FALSE(error_of("").where.empty());
  EXPECT_FALSE(error_of("[]").where.empty());
  EXPECT_FALSE(error_of("{}").where.empty());
}

TEST(PlanJson, RefusesBrokenDeviceRanges) {
  const std::string text = to_json(small());
  for (const char* bad : {"\"1-0\"", "\"0-1:0\"", "\"0-1:1\"", "\"0-3:2\"", "\"-1\"", "\"0-\"", "\"0-1:\"", "\"0 - 1\"", "\"\"",
                          "\"a\"", "\"00-1\"", "\"0-99999999999999999999\"", "\"0-4194304\"", "\"0-1:1:1\"", "7", "null", "[]"}) {
    EXPECT_FALSE(error_of(replaced(text, "\"0-1\"", bad)).where.empty()) << bad;
  }
  EXPECT_NE(error_of(replaced(text, "\"0-1\"", "\"2-3\"")).message().find("device 2 twice"), std::string::npos);
}

// Whatever a file holds, reading it returns a plan or an error with a place.
TEST(PlanJson, DamagedTextNeverCrashes) {
  const std::string text = to_json(small());
  EXPECT_TRUE(rc::check("a few bytes changed, cut or doubled", [&text] {
    for (int round = 0; round < 20; ++round) {
      std::string damaged = text;
      for (int k = *rc::gen::inRange(1, 4); k > 0; --k) {
        const auto at = *rc::gen::inRange<std::size_t>(0, damaged.size());
        const auto length = *rc::gen::inRange<std::size_t>(0, 6);
        damaged.replace(
            at, length,
            *rc::gen::element<std::string>("", "-", "9", "99999999999", "e9", "\"", "{", "}", "[", ",", "null", "\xff"));
      }
      const Result<Plan> plan = plan_from_json(damaged, "plan.json");
      if (plan.ok()) {
        RC_ASSERT(validate(*plan).ok());
      } else {
        RC_ASSERT(plan.error().where.substr(0, 9) == "plan.json");
      }
    }
  }));
}

TEST(PlanJson, RefusesAnEditedInput) {
  const Error error = error_of(replaced(to_json(small()), "12345.5", "12346.5"));
  EXPECT_NE(error.message().find("edited"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace espalier::plan_test::plan_json_test
