// SPDX-License-Identifier: Apache-2.0
#include "sim/simulator.h"

#include <gtest/gtest.h>

#include "sim/testing.h"

namespace espalier::sim {
namespace {

using testing::structure;
using testing::uniform;

Simulation simulate(const Program& program, const cost::test::ByChunk& timing) {
  Simulator simulator;
  Result<Simulation> result = simulator.run(program, costs_of(timing, program.structure()), {true});
  EXPECT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(simulator.iteration_ns(program, costs_of(timing, program.structure())), result->iteration_ns);
  for (const RankOutcome& rank : result->ranks) EXPECT_EQ(rank.breakdown.total_ns(), result->iteration_ns);
  return result.value();
}

// There are two stages and two micro-batches, F = 2, B + W = 3, sends free. Time runs to the right, one column a
// nanosecond:
//   stage 0  F0F0F1F1...B0B0B0..B1B1B1     14: idle [4,7) and [10,12)
//   stage 1  ..F0F0B0B0B0F1F1B1B1B1..
// F0 reaches stage 1 at 2; B0 ends there at 7, F1 at 9, B1 at 12. Stage 0: B0 [7,10), B1 [12,15).
TEST(Simulator, TwoStagesByHand) {
  const ProgramStructure low = structure(ScheduleKind::one_f_one_b, 2, 1, 2);
  const Simulation s = simulate(lower(low), uniform(low.schedule, 2, 2, 1));
  EXPECT_EQ(s.iteration_ns, 15);
  EXPECT_EQ(s.last_rank, 0);
  EXPECT_EQ(s.ranks[0].breakdown, (Breakdown{10, 0, 5, 0, 0}));  // (p−1)(F+B+W) = 5
  EXPECT_EQ(s.ranks[1].breakdown, (Breakdown{10, 0, 5, 0, 0}));
  EXPECT_EQ(s.ranks[1].end_ns, 12);
}

// A send of 4 ns delays the other side by 4: F0 at stage 1 runs from 6. With blocking sends, stage 0 starts F1 at 6,
// not at 2.
TEST(Simulator, SendsTakeTimeAndMayBlock) {
  ProgramStructure low = structure(ScheduleKind::one_f_one_b, 2, 1, 2);
  cost::test::ByChunk timing = uniform(low.schedule, 2, 2, 1);
  timing.chunks[1].send_forward_ns = 4;
  Program program = lower(low);
  Simulation s = simulate(program, timing);
  EXPECT_EQ(s.spans[2], (Span{2, 4})) << "the second forward of stage 0";
  EXPECT_EQ(s.iteration_ns, 19);  // stage 1: F0 [6,8) B0 [8,11) F1 [11,13) B1 [13,16); stage 0: B1 [16,19)
  low.overlap_p2p = false;
  program = lower(low);
  s = simulate(program, timing);
  EXPECT_EQ(s.spans[2], (Span{6, 8}));
  EXPECT_EQ(s.iteration_ns, 20);  // F1 reaches stage 1 at 12: F1 [12,14) B1 [14,17); stage 0: B1 [17,20)
}

// One stage runs F [0,2), B [2,5), then an exposed reduction of 4 ns, then the update of 1 ns.
TEST(Simulator, ReductionAfterComputeIsExposed) {
  ProgramStructure low = structure(ScheduleKind::one_f_one_b, 1, 1, 1);
  low.reduce_gradients = true;
  cost::test::ByChunk timing = uniform(low.schedule, 2, 2, 1);
  timing.chunks[0].grad_reduce_ns = 4;
  timing.stages[0].optimizer_ns = 1;
  const Simulation s = simulate(lower(low), timing);
  EXPECT_EQ(s.ranks[0].breakdown, (Breakdown{5, 4, 0, 1, 0}));
  EXPECT_EQ(s.ranks[0].hidden_communication_ns, 0);
}

// The end of the step takes 10 ns: 3 wait for a reduction, 2 launch kernels, 4 are host work, so the update is 1.
// Host work is part of `optimizer` and also reported by its own field.
TEST(Simulator, TheEndOfTheStepIsAttributedByItsParts) {
  const ProgramStructure low = structure(ScheduleKind::one_f_one_b, 1, 1, 1);
  cost::test::ByChunk timing = uniform(low.schedule, 2, 2, 1);
  cost::test::StageRow& end = timing.stages[0];
  end.optimizer_ns = 10;
  end.optimizer_exposed_ns = 3;
  end.optimizer_launch_ns = 2;
  end.step_host_ns = 4;
  const Simulation s = simulate(lower(low), timing);
  Breakdown expected{5, 3, 0, 5, 2};
  expected.step_host_ns = 4;
  EXPECT_EQ(s.ranks[0].breakdown, expected);
  EXPECT_EQ(s.iteration_ns, 15);
}

// The backward of 8 has two buckets of 4. The reduction of the first bucket (3 ns) hides under the second bucket:
// [2+4, 9). The reduction of the second starts with the end of compute, 10, and is exposed.
TEST(Simulator, ReductionBesideComputeIsHidden) {
  ProgramStructure low = structure(ScheduleKind::one_f_one_b, 1, 1, 1, 2);
  low.reduce_gradients = low.overlap_reduce = true;
  cost::test::ByChunk timing = uniform(low.schedule, 2, 4, 4);
  timing.chunks[0].grad_reduce_ns = 3;
  const Simulation s = simulate(lower(low), timing);
  EXPECT_EQ(s.iteration_ns, 13);
  EXPECT_EQ(s.ranks[0].breakdown, (Breakdown{10, 3, 0, 0, 0}));
  EXPECT_EQ(s.ranks[0].hidden_communication_ns, 3);
}

// A phase has the parts compute 5, exposed 2, other 1; hidden 4 is reported separately.
TEST(Simulator, PhasesAreAttributedByTheirParts) {
  const ProgramStructure low = structure(ScheduleKind::one_f_one_b, 1, 1, 2);
  cost::test::ByChunk timing = uniform(low.schedule, 0, 0, 0);
  timing.chunks[0].forward = {5, 2, 1, 4};
  const Simulation s = simulate(lower(low), timing);
  EXPECT_EQ(s.ranks[0].breakdown, (Breakdown{10, 4, 0, 0, 2}));
  EXPECT_EQ(s.ranks[0].hidden_communication_ns, 8);
}

// Under 1F1B on two stages, stage 0 holds two micro-batches. Static 1000, saved 100, backward transient 7 → 1207
// tensors at the first backward. The reserve is 10 % of that, rounded down: 120.
TEST(Simulator, MemoryPeakAndItsMoment) {
  const ProgramStructure low = structure(ScheduleKind::one_f_one_b, 2, 1, 3);
  cost::test::ByChunk timing = uniform(low.schedule, 2, 2, 1);
  timing.allocator_reserve = 0.1;
  for (cost::test::StageRow& stage : timing.stages) stage.memory.parameters = 1000;
  for (cost::test::ChunkRow& chunk : timing.chunks) {
    chunk.saved_bytes = 100;
    chunk.forward_transient_bytes = 3;
    chunk.backward_transient_bytes = 7;
  }
  const Program program = lower(low);
  const Simulation s = simulate(program, timing);
  EXPECT_EQ(s.ranks[0].memory.bytes, 1327);
  EXPECT_EQ(s.ranks[0].memory.activations, 207);
  EXPECT_EQ(s.ranks[0].memory.reserve, 120);
  EXPECT_EQ(s.ranks[0].memory.at_ns, 7);
  EXPECT_EQ(program.instructions[static_cast<std::size_t>(s.ranks[0].memory.instruction)].kind, InstructionKind::backward);
  EXPECT_EQ(s.ranks[1].memory.activations, 107);
  Simulator simulator;
  std::vector<std::int64_t> peaks;
  simulator.peak_bytes(program, costs_of(timing, program.structure()), peaks);
  EXPECT_EQ(peaks, (std::vector<std::int64_t>{s.ranks[0].memory.bytes, s.ranks[1].memory.bytes}));
}

// Zero-bubble: after the input gradient 40 of 100 bytes stay until the weight gradient. ZB-H1 on stage 1 of 2, m = 2:
// F0 100, B0 → 40, F1 140, B1 80 (peak 140 + transient 7), W0, W1.
TEST(Simulator, SplitBackwardFreesInTwoSteps) {
  const ProgramStructure low = structure(ScheduleKind::zb_h1, 2, 1, 2);
  cost::test::ByChunk timing = uniform(low.schedule, 2, 2, 1);
  for (cost::test::ChunkRow& chunk : timing.chunks) {
    chunk.saved_bytes = 100;
    chunk.saved_after_input_bytes = 40;
    chunk.backward_transient_bytes = 7;
  }
  EXPECT_EQ(simulate(lower(low), timing).ranks[1].memory.activations, 147);
}

TEST(Simulator, DeadlockNamesTheBlockedInstructions) {
  const ProgramStructure low = structure(ScheduleKind::one_f_one_b, 2, 1, 1);
  Program program = lower(low);
  // Rank 0 has forward, send, recv_grad, backward, optimizer. The recv is moved before the forward, and the forward
  // waits for it.
  std::swap(program.instructions[1], program.instructions[2]);
  std::swap(program.instructions[0], program.instructions[1]);
  program.instructions[0].match = 8;
  program.instructions[8].match = 0;
  program.instructions[5].match = 2;
  program.instructions[1].wait0 = 0;
  program.instructions[2].wait0 = 1;
  program.instructions[3].wait0 = 0;
  ASSERT_FALSE(validate(program).ok());
  Simulator simulator;
  const cost::test::ByChunk timing = uniform(low.schedule, 1, 1, 1);
  EXPECT_EQ(simulator.iteration_ns(program, costs_of(timing, program.structure())), -1);
  const Result<Simulation> result = simulator.run(program, costs_of(timing, program.structure()));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::internal);
  EXPECT_EQ(result.error().found,
            "deadlock: rank 0 at 0 (recv of chunk 1, micro-batch 0); rank 1 at 5 (recv of chunk 1, micro-batch 0)");
}

TEST(Simulator, WrongTimingIsAnError) {
  const ProgramStructure low = structure(ScheduleKind::one_f_one_b, 2, 1, 1);
  cost::test::ByChunk timing = uniform(low.schedule, 1, 1, 1);
  Simulator simulator;
  EXPECT_FALSE(simulator.run(lower(structure(ScheduleKind::zb_h1, 2, 1, 1)), costs_of(timing, low)).ok());
}

}  // namespace
}  // namespace espalier::sim
