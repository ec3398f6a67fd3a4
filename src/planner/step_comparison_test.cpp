// SPDX-License-Identifier: Apache-2.0
// Compares a changed copy of the simulated step with the original: the comparison must find exactly the changes.
#include "espalier/step_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "espalier/planner.h"
#include "planner/described.h"
#include "planner/test_jobs.h"

namespace espalier::planner {
namespace {

/// Holds two stages of two replicas; every rank runs as its class was simulated.
struct Ran {
  Ran()
      : job(test::job("gpt2", "{nodes: 1, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 8}",
                      "engine: generic")) {
    Strategy s;
    s.dp = 2;
    plan = estimate(job, s, {ScheduleKind::one_f_one_b, 2, 1, 4, 1})->plan;
    EXPECT_TRUE(simulated(job, plan, &timed));
    step.plan = content_hash(plan);
    for (const RankClass& rank : timed.program.ranks)
      for (std::int64_t k = 0; k < rank.represents(); ++k) add_rank(rank, rank.device() + k);
  }
  void add_rank(const RankClass& rank, std::int64_t device) {
    MeasuredRank m;
    m.device = device;
    m.end_ns = timed.simulation.iteration_ns;
    std::int64_t now = 0;
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& x = timed.program.instructions[static_cast<std::size_t>(i)];
      const Span& span = timed.simulation.spans[static_cast<std::size_t>(i)];
      m.instructions.push_back({span.start_ns, span.end_ns, 0, 0, 0});
      if (x.stream != Stream::compute) continue;
      MeasuredInstruction& row = m.instructions.back();
      row.operators_ns = timed.costs.works[x.work()].time.compute_ns / x.buckets;
      row.waited_ns = span.start_ns - now;
      now = span.end_ns;
    }
    step.ranks.push_back(std::move(m));
  }
  Job job;
  Plan plan;
  Timed timed;
  MeasuredStep step;
};

TEST(StepComparison, AStepAsSimulatedHasTheSameLengthAndBubble) {
  const Ran t;
  const auto compared = compare_step(t.job, t.plan, t.step);
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_EQ(compared->predicted_ns, compared->measured_ns);
  ASSERT_EQ(compared->ranks.size(), 4u);
  for (const RankComparison& r : compared->ranks) {
    EXPECT_EQ(r.predicted.total_ns(), compared->predicted_ns);
    EXPECT_EQ(r.measured.total_ns(), compared->measured_ns);
    EXPECT_EQ(r.predicted.bubble_ns, r.measured.bubble_ns) << r.device;
  }
  ASSERT_EQ(compared->measured.ranks.size(), compared->predicted.ranks.size());
  for (std::size_t r = 0; r < compared->measured.ranks.size(); ++r)
    EXPECT_EQ(compared->measured.ranks[r].spans, compared->predicted.ranks[r].spans);
}

// The last computation of device 3 (the update) takes a millisecond longer, half of it in the update itself. All
// steps end a millisecond later.
TEST(StepComparison, WhatTakesLongerIsFoundWhereItIs) {
  Ran t;
  for (MeasuredRank& rank : t.step.ranks) rank.end_ns += 1'000'000;
  const auto update = [&t](MeasuredRank& rank) -> MeasuredInstruction& {
    const RankClass& list = t.timed.program.ranks.back();
    std::size_t at = 0;
    for (std::int32_t i = list.begin; i < list.end; ++i)
      if (t.timed.program.instructions[static_cast<std::size_t>(i)].kind == InstructionKind::optimizer)
        at = static_cast<std::size_t>(i - list.begin);
    return rank.instructions[at];
  };
  const auto before = compare_step(t.job, t.plan, t.step);
  ASSERT_TRUE(before) << before.error().message();
  MeasuredRank& last =
      *std::find_if(t.step.ranks.begin(), t.step.ranks.end(), [](const MeasuredRank& r) { return r.device == 3; });
  update(last).end_ns += 1'000'000;
  update(last).operators_ns += 500'000;
  const auto after = compare_step(t.job, t.plan, t.step);
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->ranks[2].measured, before->ranks[2].measured);
  const Breakdown &a = after->ranks[3].measured, &b = before->ranks[3].measured;
  EXPECT_EQ(a.optimizer_ns, b.optimizer_ns + 500'000);
  EXPECT_EQ(a.other_ns, b.other_ns + 500'000);
  EXPECT_EQ(a.bubble_ns, b.bubble_ns - 1'000'000);
}

// Every block has the same price: the time of its forward linears, times 12 blocks, 4 micro-batches and 2 replicas.
// The measurement has one pass of one of them.
TEST(StepComparison, OperatorsAreAddedUpOverLayersAndDevices) {
  Ran t;
  const auto& kind = t.job.model.layer(1);
  const auto qkv =
      std::find_if(kind.operators.begin(), kind.operators.end(), [](const Operator& o) { return o.name == "attn.qkv"; });
  ASSERT_NE(qkv, kind.operators.end());
  const auto number = static_cast<std::int32_t>(qkv - kind.operators.begin());
  t.step.ranks[0].operators.push_back({1, number, OperatorPass::forward, false, 4, 1000});
  t.step.ranks[1].operators.push_back({2, number, OperatorPass::forward, false, 4, 500});
  const auto compared = compare_step(t.job, t.plan, t.step);
  ASSERT_TRUE(compared) << compared.error().message();
  const auto row = std::find_if(compared->operators.begin(), compared->operators.end(),
                                [](const OperatorComparison& o) { return o.name == "attn.qkv" && o.part == "forward"; });
  ASSERT_NE(row, compared->operators.end());
  EXPECT_EQ(row->times, 8);
  EXPECT_EQ(row->measured_ns, 1500);
  EXPECT_GT(row->predicted_ns, 0);
  EXPECT_EQ(row->predicted_ns % (12 * 4 * 2), 0);
}

TEST(StepComparison, AnotherPlanOrOtherListsAreRefused) {
  const Ran good;
  const auto refused = [&good](const std::function<void(MeasuredStep&)>& change) {
    MeasuredStep step = good.step;
    change(step);
    const auto compared = compare_step(good.job, good.plan, step);
    return compared ? "" : compared.error().message();
  };
  EXPECT_NE(refused([](MeasuredStep& s) { s.plan = "another"; }).find("another"), std::string::npos);
  EXPECT_NE(refused([](MeasuredStep& s) { s.ranks.pop_back(); }).find("3 ranks"), std::string::npos);
  EXPECT_NE(refused([](MeasuredStep& s) { s.ranks[1].device = 0; }).find("twice"), std::string::npos);
  EXPECT_NE(refused([](MeasuredStep& s) { s.ranks[1].device = 9; }).find("not in the plan"), std::string::npos);
  EXPECT_NE(refused([](MeasuredStep& s) { s.ranks[0].instructions.pop_back(); }).find("instructions"), std::string::npos);
  EXPECT_NE(refused([](MeasuredStep& s) { s.ranks[0].end_ns = 1; }).find("instruction"), std::string::npos);
  EXPECT_NE(refused([](MeasuredStep& s) { s.ranks[0].operators.push_back({999, 0}); }).find("layer 999"), std::string::npos);
}

}  // namespace
}  // namespace espalier::planner
