// SPDX-License-Identifier: Apache-2.0
// Tests overlapped compute and collectives of one rank.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "cost/overlap.h"
#include "sim/simulator.h"
#include "sim/testing.h"

namespace espalier::sim {
namespace {

/// Has one rank: a forward of 0 ns, then a collective of `c` ns that overlaps a backward of `w` ns. Both start at 0.
struct PairOf {
  PairOf(std::int64_t c, std::int64_t w, cost::MutualSlowdown k) {
    ProgramStructure low = testing::structure(ScheduleKind::one_f_one_b, 1, 1, 1, 1);
    low.reduce_gradients = true;
    program = lower(low);  // forward, backward, grad_reduce[backward], optimizer[grad_reduce]
    program.instructions[2].wait0 = 0;
    timing = testing::uniform(low.schedule, 0, w, 0);
    timing.chunks[0].grad_reduce_ns = c;
    timing.slow_down(k);
    result = Simulator().run(program, costs_of(timing, program.structure()), {true}).value();
  }
  Program program;
  cost::test::ByChunk timing;
  Simulation result;
};

std::int64_t together(std::int64_t c, std::int64_t w, cost::MutualSlowdown k) { return PairOf(c, w, k).result.iteration_ns; }

// c = 10, w = 20, κ_c = 2, κ_w = 1.25. The collective takes 20 when overlapped. Meanwhile compute does 16, and its
// remaining 4 run alone: 24.
TEST(Overlap, ByHand) {
  const PairOf pair(10, 20, {2.0, 1.25});
  EXPECT_EQ(pair.result.iteration_ns, 24);
  EXPECT_EQ(pair.result.spans[2], (Span{0, 20}));
  EXPECT_EQ(pair.result.spans[1], (Span{0, 24}));
  EXPECT_EQ(pair.result.ranks[0].breakdown, (Breakdown{20, 4, 0, 0, 0})) << "slow-down of compute is exposed communication";
  EXPECT_EQ(pair.result.ranks[0].hidden_communication_ns, 20);
}

// There are two stages, each with the collective and the backward of the first test, which start together. The last
// stage slows them down as in that test: 24. The first one does not: its backward follows and takes 20, 44 in all,
// its collective 10. With one factor for both, the time would be 48.
TEST(Overlap, EachStageHasItsOwnFactors) {
  ProgramStructure low = testing::structure(ScheduleKind::one_f_one_b, 2, 1, 1, 1);
  low.reduce_gradients = low.overlap_p2p = true;
  Program program = lower(low);
  cost::test::ByChunk timing = testing::uniform(low.schedule, 0, 20, 0);
  for (cost::test::ChunkRow& chunk : timing.chunks) {
    chunk.grad_reduce_ns = 10;
    chunk.send_forward_ns = chunk.send_backward_ns = 0;
  }
  timing.stages[1].slowdown = {2.0, 1.25};
  std::vector<std::int32_t> backward, reduce;
  for (const RankClass& rank : program.ranks)
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      Instruction& x = program.instructions[static_cast<std::size_t>(i)];
      if (x.kind == InstructionKind::backward) backward.push_back(i);
      if (x.kind != InstructionKind::grad_reduce) continue;
      reduce.push_back(i);
      x.wait0 = backward.back() - 1;  // the backward's predecessor
    }
  const Simulation result = Simulator().run(program, costs_of(timing, low), {true}).value();
  const auto span = [&](std::int32_t i) { return result.spans[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(span(backward[1]), (Span{0, 24}));
  EXPECT_EQ(span(reduce[1]), (Span{0, 20}));
  EXPECT_EQ(span(backward[0]), (Span{24, 44}));
  EXPECT_EQ(span(reduce[0]), (Span{24, 34}));
  EXPECT_EQ(result.iteration_ns, 44);
}

// κ_c = κ_w = 3: overlapping would be slower than running in turn, 1/3 + 1/3 < 1. Compute goes first, then the
// collective.
TEST(Overlap, StrongFactorsRunInTurn) {
  const PairOf pair(10, 20, {3.0, 3.0});
  EXPECT_EQ(pair.result.spans[1], (Span{0, 20}));
  EXPECT_EQ(pair.result.spans[2], (Span{20, 30}));
  EXPECT_EQ(pair.result.ranks[0].breakdown, (Breakdown{20, 10, 0, 0, 0}));
}

TEST(Overlap, WithoutSlowdownTheLongerOneDecides) {
  EXPECT_TRUE(rc::check("κ = 1 gives the maximum", [] {
    const std::int64_t c = *rc::gen::inRange(0, 1'000'000), w = *rc::gen::inRange(0, 1'000'000);
    RC_ASSERT(together(c, w, {1.0, 1.0}) == std::max(c, w));
  }));
}

TEST(Overlap, BetweenMaximumAndSum) {
  EXPECT_TRUE(rc::check("1/κ_c + 1/κ_w ≥ 1: max ≤ time ≤ sum, and the closed formula", [] {
    const std::int64_t c = *rc::gen::inRange(0, 1'000'000), w = *rc::gen::inRange(0, 1'000'000);
    cost::MutualSlowdown k{*rc::gen::inRange(100, 300) / 100.0, *rc::gen::inRange(100, 300) / 100.0};
    RC_PRE(1.0 / k.communication + 1.0 / k.compute >= 1.0);
    const std::int64_t time = together(c, w, k);
    RC_ASSERT(time >= std::max(c, w));
    RC_ASSERT(time <= c + w);
    const double formula = cost::pair_time(static_cast<double>(c), static_cast<double>(w), k);
    RC_ASSERT(static_cast<double>(time) <= formula + 1e-3);
    RC_ASSERT(static_cast<double>(time) >= formula - 2.0);  // each of the two ends is rounded down
  }));
}

// There are pieces, several consecutive collectives and idle gaps. With 1/κ_c + 1/κ_w ≥ 1 the iteration is never
// longer than with everything in turn, and never shorter than compute alone.
TEST(Overlap, WholeProgramsStayBetweenTheBounds) {
  EXPECT_TRUE(rc::check("bounds of a rank with gathers and reductions", [] {
    ProgramStructure low = testing::structure(ScheduleKind::one_f_one_b, 1, 1, *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 9));
    low.reduce_gradients = low.gather_parameters = true;
    low.overlap_reduce = low.overlap_gather = true;
    cost::test::ByChunk timing = testing::uniform(low.schedule, *rc::gen::inRange(0, 1000), *rc::gen::inRange(0, 1000), 0);
    timing.chunks[0].grad_reduce_ns = *rc::gen::inRange(0, 300);
    timing.chunks[0].param_gather_ns = *rc::gen::inRange(0, 300);
    timing.slow_down({*rc::gen::inRange(100, 200) / 100.0, *rc::gen::inRange(100, 200) / 100.0});
    const cost::test::ChunkRow& chunk = timing.chunks[0];
    const std::int64_t compute = low.schedule.microbatches * (chunk.forward.compute_ns + chunk.backward.compute_ns);
    const std::int64_t data = low.buckets[ChunkId(0)] * (chunk.grad_reduce_ns + chunk.param_gather_ns);
    Simulator simulator;
    const std::int64_t time = simulator.iteration_ns(lower(low), costs_of(timing, low));
    RC_ASSERT(time >= std::max(compute, data));
    RC_ASSERT(time <= compute + data);
  }));
}

}  // namespace
}  // namespace espalier::sim
