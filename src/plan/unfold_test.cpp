// SPDX-License-Identifier: Apache-2.0
// Tests the lists of all devices if stages differ in size, assign samples unequally or belong to several pipelines.
#include "plan/unfold.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/test_problem.h"

namespace espalier::plan_test::unfold_test {
namespace {

using plan_test::spread;

/// Returns stages of two layers each on consecutive devices from `first` on.
Pipeline pipeline(const std::vector<Strategy>& stages, Schedule schedule, std::int64_t first, std::int32_t layers) {
  Pipeline out;
  schedule.stages = static_cast<std::int32_t>(stages.size());
  out.schedule = schedule;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::int64_t devices = std::int64_t{stages[i].tp} * stages[i].dp;
    const auto count = static_cast<std::int32_t>(stages.size()), k = static_cast<std::int32_t>(i);
    out.stages.push_back({{{first, devices, 1}}, {Chunk{{{k * layers / count, (k + 1) * layers / count - 1, stages[i]}}}}});
    first += devices;
  }
  out.samples = schedule.microbatches * out.samples_per_microbatch();
  return out;
}

Plan plan_of(const std::vector<Pipeline>& pipelines) {
  Plan plan;
  plan.training = plan_test::training(64, 0);
  plan.pipelines = pipelines;
  for (std::size_t p = 0; p < pipelines.size(); ++p) {
    plan.pipelines[p].id = static_cast<std::int32_t>(p);
    plan.training.global_batch += pipelines[p].samples;
  }
  return plan;
}

Model model_of_four() { return plan_test::decoder({2, 4, 4, 8, 64, 96, 0, 0}); }

/// Returns "forward0 send0>2 …": kinds, micro-batches, and for transfers the other rank.
std::string text(const Program& program, std::size_t rank) {
  const RankClass& r = program.ranks[rank];
  std::string result;
  for (std::int32_t i = r.begin; i < r.end; ++i) {
    const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
    if (!result.empty()) result += ' ';
    result += std::string(to_string(x.kind));
    if (x.microbatch >= 0) result += std::to_string(x.microbatch);
    if (x.peer >= 0) result.append(x.kind == InstructionKind::send ? ">" : "<").append(std::to_string(x.peer));
  }
  return result;
}

// Two replicas of one sample each feed one device that takes both; each gets back the gradient of its sample.
TEST(Unfold, TwoReplicasFeedOneDevice) {
  const Plan plan = plan_of({pipeline({spread(1, 2), spread(1, 1)}, {ScheduleKind::one_f_one_b, 2, 1, 1, 1}, 0, 4)});
  const Program program = lower(plan, model_of_four(), false);
  ASSERT_EQ(program.ranks.size(), 3u);
  EXPECT_EQ(text(program, 0), "forward0 send0>2 recv0<2 backward0 grad_reduce optimizer");
  EXPECT_EQ(text(program, 1), "forward0 send0>2 recv0<2 backward0 grad_reduce optimizer");
  EXPECT_EQ(text(program, 2), "recv0<0 recv0<1 forward0 backward0 send0>0 send0>1 grad_reduce optimizer");
  EXPECT_TRUE(program.transfers[TransferId(0)].boxes);
  const Instruction& forward = program.instructions[static_cast<std::size_t>(program.ranks[2].begin + 2)];
  EXPECT_EQ(forward.wait0, program.ranks[2].begin + 1);  // the last of its receives
  EXPECT_TRUE(validate(program).ok());
}

// TP 2 holds two copies of an activation, one of which is sent; the gradient returns to both. A rank that sends
// nothing waits for nothing.
TEST(Unfold, CopiesAreSentOnce) {
  const Plan plan = plan_of({pipeline({spread(2, 1), spread(1, 1)}, {ScheduleKind::gpipe, 2, 1, 2, 1}, 0, 4)});
  const Program program = lower(plan, model_of_four(), false);
  EXPECT_EQ(text(program, 0), "forward0 send0>2 forward1 send1>2 recv0<2 backward0 recv1<2 backward1 optimizer");
  EXPECT_EQ(text(program, 1), "forward0 forward1 recv0<2 backward0 recv1<2 backward1 optimizer");
  EXPECT_TRUE(validate(program).ok());
}

TEST(Unfold, StagesAlikeAreJoinedByPosition) {
  const Plan plan = plan_of({pipeline({spread(2, 1), spread(1, 2)}, {ScheduleKind::one_f_one_b, 2, 1, 2, 2}, 0, 4)});
  const Program program = lower(plan, model_of_four(), false);
  EXPECT_EQ(text(program, 1), "forward0 send0>3 forward1 send1>3 recv0<3 backward0 recv1<3 backward1 grad_reduce optimizer");
  EXPECT_FALSE(program.transfers[TransferId(0)].boxes);
  EXPECT_TRUE(validate(program).ok());
}

// Every list ends, whatever the sizes of the stages, alone and next to another pipeline. Pipelines take samples one
// after the other.
TEST(Unfold, NoDeadlockBetweenUnlikeStages) {
  const std::vector<Strategy> strategies{spread(1, 1), spread(1, 4), spread(2, 2, SequenceParallel::megatron), spread(4, 1),
                                         spread(1, 2)};
  const Pipeline other = pipeline({spread(2, 1), spread(1, 2), spread(1, 1)}, {ScheduleKind::one_f_one_b, 3, 1, 3, 2}, 100, 4);
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
    for (const Strategy& a : strategies)
      for (const Strategy& b : strategies)
        for (const bool overlaps : {false, true}) {
          Strategy first = a, second = b;
          first.overlap.p2p = second.overlap.p2p = overlaps;
          const Schedule schedule{kind, 2, 1, 4, 4 / a.dp};
          const Plan plan = plan_of({pipeline({first, second}, schedule, 0, 4), other});
          const Status fault = validate(lower(plan.alone(0), model_of_four(), false));
          EXPECT_TRUE(fault.ok()) << fault.error().message();
          const Program both = lower(plan, model_of_four(), false);
          const Status joined = validate(both);
          EXPECT_TRUE(joined.ok()) << joined.error().message();
          EXPECT_EQ(both.pipelines[1].first_sample, plan.pipelines[0].samples);
          EXPECT_EQ(both.ranks.size(), static_cast<std::size_t>(a.tp * a.dp + b.tp * b.dp + 5));
        }
}

}  // namespace
}  // namespace espalier::plan_test::unfold_test
