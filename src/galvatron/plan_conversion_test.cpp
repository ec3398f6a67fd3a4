// SPDX-License-Identifier: Apache-2.0
#include "galvatron/plan_conversion.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "plan/test_problem.h"

namespace espalier::galvatron {
namespace {

Model model(std::int32_t blocks = 4) {
  plan_test::Shape shape;
  shape.blocks = blocks;
  return plan_test::decoder(shape);
}

StrategyDocument document() {
  StrategyDocument d;
  d.pp = 2;
  d.division = {2, 2};
  d.layers = {
      {2, 1, true, false, false, 1}, {2, 1, true, false, false, 0}, {1, 1, true, false, true, 0}, {1, 1, true, false, true, 0}};
  d.default_type = DataParallelType::zero2;
  d.global_batch = 32;
  d.chunks = 4;
  d.one_f_one_b = true;
  d.vocab_tp = 2;
  return d;
}

Result<Plan> converted(const StrategyDocument& d, SequenceParallel sp = SequenceParallel::megatron) {
  return plan_of(d, model(static_cast<std::int32_t>(d.layers.size())), plan_test::cluster(1, 8),
                 plan_test::training(64, d.global_batch), sp);
}

// On 8 devices and 2 stages of 4, tp 2 leaves dp 2, tp 1 dp 4. 32/4 = 8 samples per micro-batch are 4 on a rank of
// the embedding (dp 2).
TEST(PlanConversion, DocumentToPlanByHand) {
  const auto plan = converted(document());
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->only_pipeline().schedule, (Schedule{ScheduleKind::one_f_one_b, 2, 1, 4, 4}));
  ASSERT_EQ(plan->only_pipeline().stages.size(), 2u);
  EXPECT_EQ(plan->only_pipeline().stages[1].devices, (std::vector<DeviceRange>{{4, 4, 1}}));
  const auto& first = plan->only_pipeline().stages[0].chunks[0].ranges;  // embedding and a recomputed block; a block
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].last, 1);
  EXPECT_EQ(first[0].strategy.tp, 2);
  EXPECT_EQ(first[0].strategy.sp, SequenceParallel::megatron);
  EXPECT_EQ(first[0].strategy.dp, 2);
  EXPECT_EQ(first[0].strategy.zero, ZeroStage::gradients);
  EXPECT_EQ(first[0].strategy.shard, 2);
  EXPECT_EQ(first[0].strategy.recompute, (Recompute{RecomputeKind::full, 1}));
  EXPECT_EQ(first[1].strategy.recompute, Recompute{});
  // The second stage has two blocks with ZeRO-3; the head is like the embedding.
  const auto& second = plan->only_pipeline().stages[1].chunks[0].ranges;
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].strategy.dp, 4);
  EXPECT_EQ(second[0].strategy.zero, ZeroStage::parameters);
  EXPECT_EQ(second[1].first, 5);
  EXPECT_EQ(second[1].strategy.tp, 2);
  EXPECT_TRUE(validate(*plan).ok());
}

TEST(PlanConversion, AndBack) {
  const auto plan = converted(document());
  const auto back = document_of(*plan);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, document());
}

TEST(PlanConversion, UniformPlanSurvivesTheRoundTrip) {
  Strategy s;
  s.tp = 2;
  s.sp = SequenceParallel::ulysses;
  s.dp = 2;
  s.zero = ZeroStage::parameters;
  s.shard = 4;
  s.recompute = {RecomputeKind::full, 2};
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  const Plan plan = make_uniform_plan(model(), plan_test::cluster(1, 8), plan_test::training(64, 32), "generic", s,
                                      {ScheduleKind::gpipe, 2, 1, 4, 4}, SplitPolicy::even_blocks);
  const auto d = document_of(plan);
  ASSERT_TRUE(d.ok()) << d.error().message();
  EXPECT_TRUE(d->vocab_ulysses && d->vocab_zero3);
  const auto back = converted(*d);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, plan);
}

/// Returns a random document that 8 devices and 8 blocks can run.
StrategyDocument random_document(std::mt19937& random) {
  const auto below = [&random](std::uint32_t n) { return static_cast<std::int32_t>(random() % n); };
  StrategyDocument d;
  d.pp = 1 << below(3);
  d.division.assign(static_cast<std::size_t>(d.pp), 1);
  for (std::int32_t extra = 8 - d.pp; extra > 0; --extra)
    ++d.division[static_cast<std::size_t>(below(static_cast<std::uint32_t>(d.pp)))];
  const std::int32_t devices = 8 / d.pp;
  const auto degree = [&](std::int32_t most) { return std::min(1 << below(3), most); };
  d.default_type = static_cast<DataParallelType>(below(2));  // zero3 as the default comes back as a flag of every layer
  for (int i = 0; i < 8; ++i) {
    DocumentLayer l;
    l.tp = degree(devices);
    l.cp = degree(devices / l.tp);
    l.ulysses = l.tp > 1 && below(2) == 1;
    l.zero3 = (devices > l.tp * 1 || l.ulysses) && below(2) == 1;
    l.checkpoint = below(2);
    d.layers.push_back(l);
  }
  d.chunks = 1 << below(3);
  d.global_batch = d.chunks * 8;
  d.one_f_one_b = d.pp == 1 || below(2) == 1;
  d.vocab_tp = degree(devices);
  d.vocab_zero3 = devices > d.vocab_tp && below(2) == 1;
  return d;
}

TEST(PlanConversion, RandomDocumentsSurviveTheRoundTrip) {
  std::mt19937 random(1);
  int converted_count = 0;
  for (int i = 0; i < 300; ++i) {
    StrategyDocument d = random_document(random);
    const auto plan = converted(d);
    ASSERT_TRUE(plan.ok()) << plan.error().message() << "\n" << to_json(d);
    const auto back = document_of(*plan);
    ASSERT_TRUE(back.ok()) << back.error().message() << "\n" << to_json(d);
    // The default type has no meaning where every layer is ZeRO-3 or has no replica.
    const auto again = converted(*back);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *plan) << to_json(d) << to_json(*back);
    converted_count += *back == d;
  }
  EXPECT_GT(converted_count, 200);
}

void expect_error(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\" in: " << message;
}

TEST(PlanConversion, WhatAPlanCannotSay) {
  const auto message = [](const std::function<void(StrategyDocument&)>& change) {
    StrategyDocument d = document();
    change(d);
    const auto plan = plan_of(d, model(), plan_test::cluster(1, 8), plan_test::training(64, 32));
    return plan.ok() ? "" : plan.error().message();
  };
  expect_error(message([](StrategyDocument& d) { d.layers[1].tp_consecutive = false; }), "$.tp_consecutive_flags[1]");
  expect_error(message([](StrategyDocument& d) { d.layers[3].checkpoint = 2; }), "$.checkpoint[3]");
  expect_error(message([](StrategyDocument& d) { d.layers[2].tp = 3; }), "$.tp_sizes_enc[2]");
  expect_error(message([](StrategyDocument& d) {
                 d.layers.pop_back();
                 d.division = {2, 1};
               }),
               "4, the blocks of the model");
  expect_error(message([](StrategyDocument& d) { d.global_batch = 64; }), "$.global_bsz");
  expect_error(message([](StrategyDocument& d) { d.chunks = 5; }), "$.chunks");
  expect_error(message([](StrategyDocument& d) { d.chunks = 16; }), "samples of a micro-batch");
  expect_error(message([](StrategyDocument& d) { d.vocab_tp = 8; }), "$.vtp");
}

TEST(PlanConversion, WhatTheFileCannotSay) {
  const auto message = [](const std::function<void(Plan&)>& change) {
    Plan plan = *converted(document());
    change(plan);
    const auto d = document_of(plan);
    return d.ok() ? "" : d.error().message();
  };
  const auto block = [](Plan& plan) -> Strategy& { return plan.only_pipeline().stages[1].chunks[0].ranges[0].strategy; };
  expect_error(message([&](Plan& p) { block(p).zero = ZeroStage::optimizer; }), "ZeRO-1");
  expect_error(message([&](Plan& p) { block(p).shard = 2; }), "shards over 2 of 4");
  expect_error(message([&](Plan& p) { block(p).ep = 2; }), "ep 2");
  expect_error(message([&](Plan& p) { block(p).recompute = {RecomputeKind::selective, 0}; }), "selective");
  expect_error(message([&](Plan& p) { block(p).order = RankOrder::tp_cp_pp_dp; }), "tp-cp-pp-dp");
  expect_error(message([&](Plan& p) { block(p).partition = BlockPartition("x"); }), "operator partition");
  expect_error(message([&](Plan& p) {
                 block(p).zero = ZeroStage::none;
                 block(p).shard = 1;
               }),
               "together with zero 2");
  expect_error(message([](Plan& p) { p.only_pipeline().schedule.kind = ScheduleKind::zb_h1; }), "zb-h1");
  expect_error(message([](Plan& p) { std::swap(p.only_pipeline().stages[0].devices, p.only_pipeline().stages[1].devices); }),
               "$.pipelines[0].stages[0].devices");
  expect_error(message([](Plan& p) { p.only_pipeline().stages[1].chunks[0].ranges[1].strategy.sp = SequenceParallel::none; }),
               "one flag for the run");
  expect_error(message([](Plan& p) { p.only_pipeline().stages[1].chunks[0].ranges[1].strategy.zero = ZeroStage::parameters; }),
               "another layout than the embedding");
}

}  // namespace
}  // namespace espalier::galvatron
