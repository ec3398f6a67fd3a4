// SPDX-License-Identifier: Apache-2.0
// Tests which gradients ranks of different pipelines send to each other: by hand on a small layer, then that every
// owner gets each element of every other pipeline once.
#include "plan/gradient_exchange.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "plan/engine.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::gradient_exchange_test {
namespace {

Strategy spread(std::int32_t tp, std::int32_t dp, ZeroStage zero = ZeroStage::none) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.zero = zero;
  if (shards_optimizer(zero)) s.shard = dp;
  return s;
}

/// Describes a pipeline by the last layers of its stages.
struct Cut {
  std::vector<std::int32_t> lasts;
  Strategy strategy;
};

Plan plan_of(const std::vector<Cut>& cuts) {
  Plan plan;
  plan.training = plan_test::training(16, 0);
  plan.pipelines.clear();
  std::int64_t device = 0;
  for (const Cut& cut : cuts) {
    Pipeline pipeline;
    pipeline.id = static_cast<std::int32_t>(plan.pipelines.size());
    pipeline.schedule = {ScheduleKind::one_f_one_b, static_cast<std::int32_t>(cut.lasts.size()), 1, 1, 1};
    std::int32_t first = 0;
    for (const std::int32_t last : cut.lasts) {
      const std::int64_t devices = std::int64_t{cut.strategy.tp} * cut.strategy.dp;
      pipeline.stages.push_back({{{device, devices, 1}}, {Chunk{{{first, last, cut.strategy}}}}});
      device += devices;
      first = last + 1;
    }
    pipeline.samples = pipeline.samples_per_microbatch();
    plan.training.global_batch += pipeline.samples;
    plan.pipelines.push_back(pipeline);
  }
  return plan;
}

std::vector<GradientExchange> exchanges(const Plan& plan, const Model& model) {
  return exchanges_of(lower(plan, model, false), plan, model);
}

// Without biases, a block of 32 + 16 + … elements is cut in halves under TP 2. One device of the other pipeline sends
// each rank its half and gets both halves.
TEST(GradientExchange, HalvesMeetAWhole) {
  Model model = plan_test::decoder({1, 2, 2, 2, 8, 8, 0, 0});
  const auto all = exchanges(plan_of({{{2}, spread(2, 1)}, {{2}, spread(1, 1)}}), model);
  ASSERT_EQ(all.size(), 1u);
  const std::vector<ExchangeMessage>& messages = all.front().messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].from, 2);
  EXPECT_EQ(messages[0].to, 0);
  EXPECT_EQ(messages[0].party, 1);
  // The embedding has 8 rows of 4.
  EXPECT_EQ(messages[0].parts.front(), (ExchangedPart{{0, {{0, 32}}}, {{0, 16}}}));
  EXPECT_EQ(messages[1].parts.front(), (ExchangedPart{{0, {{0, 32}}}, {{16, 32}}}));
  EXPECT_EQ(messages[2].to, 2);
  EXPECT_EQ(messages[3].parts.front(), (ExchangedPart{{0, {{0, 32}}}, {{16, 32}}}));
}

// Two copies of the gradients share the sending: each element is sent once to the other pipeline, which sends
// it to both.
TEST(GradientExchange, CopiesTakeTheirOwn) {
  Model model = plan_test::decoder({1, 2, 2, 2, 8, 8, 0, 0});
  const auto all = exchanges(plan_of({{{2}, spread(1, 2)}, {{2}, spread(1, 1)}}), model);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all.front().messages.size(), 3u);  // 2 → 0, 2 → 1, and 0 → 2
  EXPECT_EQ(all.front().messages[2].from, 0);
}

/// Checks how often each device receives the elements of every pipeline.
void expect_complete(const Plan& plan, const Model& model) {
  const EngineModel& engine = *find_engine(plan.engine);
  const auto holdings = *holdings_of(plan, model);
  // The key is device, party, layer, unit.
  std::map<std::tuple<std::int64_t, std::int32_t, std::int32_t, std::int64_t>, std::int64_t> got;
  for (const GradientExchange& exchange : exchanges(plan, model))
    for (const ExchangeMessage& message : exchange.messages) {
      EXPECT_NE(message.from, message.to);
      for (const ExchangedPart& part : message.parts)
        got[{message.to, message.party, part.unit.layer, part.unit.elements.front().first}] += elements_of(part.elements);
    }
  for (const Holding& h : holdings)
    for (const StateUnit& unit : units_of(h, model))
      for (std::size_t p = 0; p < h.devices.size(); ++p)
        for (std::int32_t party = 0; party < static_cast<std::int32_t>(plan.pipelines.size()); ++party) {
          const UnitShare share = share_of(h, model, engine, unit, static_cast<std::int64_t>(p));
          const std::int64_t wanted = party == h.pipeline ? 0 : elements_of(share.own);
          EXPECT_EQ((got[{h.devices[p], party, unit.layer, unit.elements.front().first}]), wanted)
              << "device " << h.devices[p] << ", layer " << unit.layer << (h.table_copy ? ", copy" : "");
        }
}

TEST(GradientExchange, EveryOwnerGetsEachElementOfEveryOtherPipelineOnce) {
  Model model = plan_test::decoder({4, 4, 2, 4, 32, 24, 0, 0});
  expect_complete(plan_of({{{5}, spread(2, 1)}, {{5}, spread(1, 2, ZeroStage::optimizer)}}),
                  plan_test::decoder({4, 4, 2, 4, 32, 24, 4, 8}));
  for (const bool tied : {false, true}) {
    model.tied_embeddings = tied;
    if (tied) model.kinds[2].operators.front().parameters = 0;
    expect_complete(plan_of({{{5}, spread(2, 1)}, {{5}, spread(1, 3, ZeroStage::optimizer)}}), model);
    expect_complete(plan_of({{{2, 5}, spread(2, 2, ZeroStage::parameters)}, {{5}, spread(1, 1)}}), model);
    expect_complete(plan_of({{{0, 3, 5}, spread(1, 1)}, {{2, 5}, spread(4, 1)}, {{5}, spread(2, 2, ZeroStage::gradients)}}),
                    model);
  }
}

TEST(StateUnits, PartsByWeight) {
  EXPECT_EQ(part_bounds(10, 3, {}), (std::vector<std::int64_t>{0, 4, 8, 10}));
  EXPECT_EQ(part_bounds(10, 3, {1, 3, 1}), (std::vector<std::int64_t>{0, 2, 8, 10}));
  EXPECT_EQ(slice({{0, 4}, {10, 20}}, 2, 7), (Intervals{{2, 4}, {10, 13}}));
}

}  // namespace
}  // namespace espalier::plan_test::gradient_exchange_test
