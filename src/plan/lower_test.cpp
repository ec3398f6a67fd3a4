// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "plan/program.h"
#include "plan/schedule.h"

namespace espalier::plan_test::lower_test {
namespace {

using Kind = InstructionKind;

ProgramStructure make(ScheduleKind kind, std::int32_t p, std::int32_t v, std::int32_t m, int buckets = 1) {
  ProgramStructure low;
  low.schedule = {kind, p, v, m, 1};
  low.buckets.assign(static_cast<std::size_t>(p * v), static_cast<std::uint8_t>(buckets));
  low.overlap_p2p = true;
  return low;
}

/// Returns "F0 send0→1 …": kinds, with the relative indices of the waits in brackets.
std::string text(const Program& program, std::int32_t rank) {
  const RankClass& r = program.ranks[static_cast<std::size_t>(rank)];
  std::string result;
  for (std::int32_t i = r.begin; i < r.end; ++i) {
    const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
    if (!result.empty()) result += ' ';
    result += std::string(to_string(x.kind));
    if (program.carries_gradient(x)) result += "_grad";
    if (x.microbatch >= 0) result += std::to_string(x.microbatch);
    if (x.buckets > 1) result.append(".").append(std::to_string(x.bucket));
    if (x.wait0 < 0 && x.wait1 < 0) continue;
    result.append("[").append(x.wait0 < 0 ? "" : std::to_string(x.wait0 - r.begin));
    if (x.wait1 >= 0) result.append(",").append(std::to_string(x.wait1 - r.begin));
    result += "]";
  }
  return result;
}

// With two stages and one micro-batch, the activation goes down and the gradient comes back. Numbers in brackets are
// the indices of the waits.
TEST(Lower, TwoStagesOneMicrobatch) {
  const Program program = lower(make(ScheduleKind::one_f_one_b, 2, 1, 1));
  EXPECT_EQ(text(program, 0), "forward0 send0[0] recv_grad0 backward0[2] optimizer");
  EXPECT_EQ(text(program, 1), "recv0 forward0[0] backward0 send_grad0[2] optimizer");
  EXPECT_TRUE(validate(program).ok());
  const Instruction& send = program.instructions[1];
  EXPECT_EQ(send.peer, 1);
  EXPECT_EQ(send.match, 5);
  EXPECT_EQ(program.instructions[5].match, 1);
}

TEST(Lower, BlockingSendsHoldTheNextComputation) {
  ProgramStructure low = make(ScheduleKind::one_f_one_b, 2, 1, 2);
  low.overlap_p2p = false;
  const Program program = lower(low);
  EXPECT_EQ(text(program, 0),
            "forward0 send0[0] forward1[,1] send1[2] recv_grad0 backward0[4,3] recv_grad1 backward1[6] optimizer");
}

// The last backward is cut in two; each half is reduced as soon as it exists. The tied embedding follows.
TEST(Lower, OverlappedReductionFollowsThePieces) {
  ProgramStructure low = make(ScheduleKind::one_f_one_b, 2, 1, 2, 2);
  low.reduce_gradients = low.overlap_reduce = true;
  low.table_chunks = {ChunkId(0), ChunkId(1)};
  EXPECT_EQ(
      text(lower(low), 1),
      "recv0 forward0[0] backward0 send_grad0[2] recv1 forward1[4] backward1.0 grad_reduce.0[6] backward1.1 grad_reduce.1[8] "
      "send_grad1[8] tied_reduce[8] optimizer[11]");
}

// In zero-bubble schedules gradients are complete after the last weight gradient, so this is cut.
TEST(Lower, ZeroBubbleReducesAfterTheWeightGradient) {
  ProgramStructure low = make(ScheduleKind::zb_h1, 1, 1, 1, 2);
  low.reduce_gradients = low.overlap_reduce = true;
  EXPECT_EQ(text(lower(low), 0),
            "forward0 backward_input0 backward_weight0.0 grad_reduce.0[2] backward_weight0.1 grad_reduce.1[4] optimizer[5]");
}

TEST(Lower, WithoutOverlapCollectivesStandAtTheEnd) {
  ProgramStructure low = make(ScheduleKind::one_f_one_b, 1, 1, 1, 2);
  low.reduce_gradients = low.gather_parameters = true;
  EXPECT_EQ(text(lower(low), 0),
            "forward0 backward0 grad_reduce.0[1] grad_reduce.1[1] optimizer[3] param_gather.0[4] param_gather.1[4]");
}

// Gathers come first. The first forward is cut, and its buckets wait for them. On later stages the receive waits for
// the first gather.
TEST(Lower, OverlappedGatherFeedsTheFirstForward) {
  ProgramStructure low = make(ScheduleKind::one_f_one_b, 2, 1, 1, 2);
  low.gather_parameters = low.overlap_gather = true;
  EXPECT_EQ(text(lower(low), 0),
            "param_gather.0 param_gather.1 forward0.0[0] forward0.1[1] send0[3] recv_grad0 backward0[5] optimizer[1]");
  EXPECT_EQ(text(lower(low), 1),
            "param_gather.0 param_gather.1 recv0[0] forward0.0[2] forward0.1[1] backward0 send_grad0[5] optimizer[1]");
}

// With p = 2, stage 1 runs the neighbouring chunks 1 and 2, and stage 0 runs chunks 0 and 3.
TEST(Lower, TheTurnOfTheVNeedsNoTransfer) {
  const ProgramStructure low = make(ScheduleKind::zb_v, 2, 2, 1);
  const Program program = lower(low);
  EXPECT_EQ(text(program, 0),
            "forward0 send0[0] recv0 forward0[2] backward_input0 send_grad0[4] backward_weight0 recv_grad0 backward_input0[7] "
            "backward_weight0 optimizer");
  EXPECT_EQ(text(program, 1),
            "recv0 forward0[0] forward0 send0[2] recv_grad0 backward_input0[4] backward_weight0 backward_input0 send_grad0[7] "
            "backward_weight0 optimizer");
}

TEST(Lower, EveryProgramIsValid) {
  for (const std::int32_t p : {1, 2, 3, 4, 7, 8}) {
    for (std::int32_t m = 1; m <= 16; ++m) {
      std::vector<ProgramStructure> all = {make(ScheduleKind::gpipe, p, 1, m, 3), make(ScheduleKind::one_f_one_b, p, 1, m, 3),
                                           make(ScheduleKind::zb_h1, p, 1, m, 3), make(ScheduleKind::zb_v, p, 2, m, 3)};
      for (std::int32_t v = 1; v <= 4; ++v) all.push_back(make(ScheduleKind::interleaved, p, v, m, 2));
      for (ProgramStructure& low : all) {
        for (int bits = 0; bits < 16; ++bits) {
          low.reduce_gradients = low.gather_parameters = (bits & 1) != 0;
          low.table_chunks.clear();
          if (p > 2 && low.reduce_gradients) low.table_chunks = {ChunkId(0), ChunkId(1), ChunkId(p - 1)};
          low.overlap_reduce = low.reduce_gradients && (bits & 2) != 0;
          low.overlap_gather = low.gather_parameters && (bits & 4) != 0;
          low.overlap_p2p = (bits & 8) != 0;
          const Status status = validate(lower(low));
          ASSERT_TRUE(status.ok()) << status.error().message() << " kind " << static_cast<int>(low.schedule.kind) << " p" << p
                                   << " v" << low.schedule.virtual_stages << " m" << m << " bits " << bits;
        }
      }
    }
  }
}

Program small() { return lower(make(ScheduleKind::one_f_one_b, 2, 1, 2)); }

TEST(Validate, RejectsABrokenMatch) {
  Program program = small();
  for (Instruction& x : program.instructions) {
    if (x.kind == Kind::send) {
      x.microbatch = 1 - x.microbatch;
      break;
    }
  }
  ASSERT_FALSE(validate(program).ok());
}

TEST(Validate, RejectsAForwardWait) {
  Program program = small();
  program.instructions[0].wait0 = 3;
  ASSERT_FALSE(validate(program).ok());
}

TEST(Validate, RejectsAForeignChunk) {
  Program program = small();
  program.instructions[0].id = program.structure().forward(ChunkId(1)).value;
  ASSERT_FALSE(validate(program).ok());
}

// Both stages of a pipeline need the other's message first.
TEST(Validate, FindsADeadlock) {
  Program program = lower(make(ScheduleKind::one_f_one_b, 2, 1, 1));
  // Rank 0 runs forward send recv_grad backward; the forward is made to wait for the gradient that comes back.
  std::swap(program.instructions[0], program.instructions[2]);  // recv_grad send forward backward optimizer
  program.instructions[0].match = 8;
  program.instructions[8].match = 0;
  program.instructions[2].wait0 = 0;
  std::swap(program.instructions[1], program.instructions[2]);  // recv_grad forward send backward optimizer
  program.instructions[1].wait0 = 0;
  program.instructions[2].wait0 = 1;
  program.instructions[5].match = 2;
  program.instructions[2].match = 5;
  program.instructions[3].wait0 = 0;
  const Status status = validate(program);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().found, "it never starts");
}

}  // namespace
}  // namespace espalier::plan_test::lower_test
