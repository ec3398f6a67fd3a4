// SPDX-License-Identifier: Apache-2.0
// Tests that valid plans are accepted as a whole.
#include "check/check.h"

#include <gtest/gtest.h>

#include "check/program_check.h"
#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;

TEST(Check, AcceptsTwoStagesOfASmallModel) {
  // There are 2 blocks, embedding and head on 2 devices: stage 0 = embedding and a block, stage 1 = the rest; 4
  // micro-batches.
  const Case c = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::one_f_one_b, 2, 1, 4));
  const CheckReport report = c.check();
  EXPECT_TRUE(report.ok()) << broken(report);
  for (const char* name : {"coverage", "devices-once", "degrees", "batch", "send-recv", "deadlock", "optimizer", "static-memory",
                           "saved-activations", "peak-memory", "time-bounds"}) {
    EXPECT_NE(find(report, name), nullptr) << name;
  }
}

TEST(Check, AReportWithoutFindingsIsNotOk) { EXPECT_FALSE(CheckReport{}.ok()); }

struct Configuration {
  const char* name;
  Strategy strategy;
  Schedule schedule;
};

Strategy with(std::int32_t tp, std::int32_t dp, std::int32_t zero = 0, std::int32_t shard = 1) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.zero = ZeroStage{zero};
  s.shard = shard;
  return s;
}

std::vector<Configuration> configurations() {
  using K = ScheduleKind;
  std::vector<Configuration> all;
  const auto add = [&](const char* name, const Strategy& strategy, const Schedule& schedule) {
    all.push_back({name, strategy, schedule});
  };
  add("one stage", with(1, 1), schedule_of(K::one_f_one_b, 1, 1, 3));
  add("gpipe", with(1, 2), schedule_of(K::gpipe, 4, 1, 6));
  add("1f1b", with(2, 2), schedule_of(K::one_f_one_b, 4, 1, 8));
  add("1f1b, fewer micro-batches than stages", with(1, 1), schedule_of(K::one_f_one_b, 4, 1, 2));
  add("interleaved", with(1, 2, 1, 2), schedule_of(K::interleaved, 2, 3, 4));
  add("zb-h1", with(1, 2), schedule_of(K::zb_h1, 4, 1, 9));
  add("zb-h2", with(1, 2), schedule_of(K::zb_h2, 4, 1, 9));
  add("zb-v", with(2, 1), schedule_of(K::zb_v, 4, 2, 8));
  Strategy overlapped = with(1, 4, 1, 4);
  overlapped.overlap = {true, true, true, false};
  add("zero 1, all overlapped", overlapped, schedule_of(K::one_f_one_b, 2, 1, 4));
  add("interleaved, all overlapped", overlapped, schedule_of(K::interleaved, 2, 2, 4));
  add("zb-v, all overlapped", overlapped, schedule_of(K::zb_v, 2, 2, 5));
  add("zero 2, sharded over half", with(1, 4, 2, 2), schedule_of(K::one_f_one_b, 2, 1, 4));
  add("zero 3", with(1, 4, 3, 4), schedule_of(K::one_f_one_b, 1, 1, 2));
  Strategy sequence = with(2, 2);
  sequence.sp = SequenceParallel::megatron;
  sequence.cp = 2;
  sequence.order = RankOrder::tp_dp_cp_pp;
  sequence.recompute = {RecomputeKind::full, 1};
  add("sp, cp, full recomputation", sequence, schedule_of(K::one_f_one_b, 2, 1, 4));
  sequence.order = RankOrder::tp_cp_pp_dp;
  sequence.sp = SequenceParallel::ulysses;
  sequence.recompute = {RecomputeKind::selective, 0};
  add("ulysses, cp, selective recomputation, dp outermost", sequence, schedule_of(K::one_f_one_b, 2, 1, 4));
  return all;
}

TEST(Check, AcceptsEverySchedule) {
  for (const bool tied : {true, false}) {
    DecoderShape shape = gpt(6);
    shape.tied = tied;
    for (const Configuration& configuration : configurations()) {
      const CheckReport report = make_case(model_of(shape), configuration.strategy, configuration.schedule).check();
      EXPECT_TRUE(report.ok()) << configuration.name << "\n" << broken(report);
    }
  }
}

TEST(Check, AcceptsExperts) {
  DecoderShape shape = gpt(4);
  shape.experts = 8;
  shape.top_k = 2;
  Strategy s = with(2, 4);
  s.sp = SequenceParallel::megatron;
  s.ep = 4;
  const CheckReport report = make_case(model_of(shape), s, schedule_of(ScheduleKind::one_f_one_b, 2, 1, 4)).check();
  EXPECT_TRUE(report.ok()) << broken(report);
}

TEST(Check, AcceptsOneRankPerDevice) {
  // This plan is not folded: 4 stages of 4 devices are 16 ranks, and data groups meet.
  Strategy s = with(2, 2, 1, 2);
  s.overlap.grad_reduce = true;
  Case c = make_case(model_of(gpt(6)), s, schedule_of(ScheduleKind::one_f_one_b, 4, 1, 8));
  c.program = lower(c.plan, c.model, false);
  ASSERT_EQ(c.program.ranks.size(), 16u);
  const CheckReport report = c.check();
  EXPECT_TRUE(report.ok()) << broken(report);
}

TEST(Check, InFlightActivations) {
  // 1F1B with p = 4, m = 8: stage i holds min(m, p − i) = 4, 3, 2, 1 micro-batches. GPipe holds all 8. If a chunk
  // keeps another 1000 bytes, the peak rises by 1000 bytes for each micro-batch held, times 1.06 for the reserve.
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
    const Case c = make_case(model_of(gpt(6)), {}, schedule_of(kind, 4, 1, 8));
    const View view = make_view(c.plan, c.model, c.cluster);
    const std::vector<std::int64_t> fixed(4, 0);
    std::vector<std::int64_t> saved = saved_bytes_per_chunk(view);
    const auto before = peak_bytes_per_stage(view, c.program, fixed, saved);
    for (std::int64_t& bytes : saved) bytes += 1000;
    const auto after = peak_bytes_per_stage(view, c.program, fixed, saved);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      // One of them is the running one, whose own peak does not move here.
      const std::int64_t expected = (kind == ScheduleKind::gpipe ? 8 : 4 - static_cast<std::int64_t>(stage)) - 1;
      EXPECT_NEAR(static_cast<double>(after[stage].least - before[stage].least), 1060.0 * static_cast<double>(expected), 2.0);
    }
  }
}

TEST(Check, WithoutClaimsOnlyStructureIsChecked) {
  const Case c = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::one_f_one_b, 2, 1, 4));
  const CheckReport report = check_plan(c.plan, c.model, c.cluster, c.program, nullptr);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(find(report, "static-memory"), nullptr);
}

}  // namespace
}  // namespace espalier::check
