// SPDX-License-Identifier: Apache-2.0
// Tests that folding changes nothing: one representative per stage gives the same times, breakdowns and memory as
// every device.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "sim/clock.h"
#include "sim/random_case.h"
#include "sim/simulator.h"

namespace espalier::sim {
namespace {

using testing::any_case;
using testing::Case;

/// Returns whether two outcomes are equal, except for the instruction that reached the memory peak.
bool same(const RankOutcome& a, RankOutcome b) {
  b.memory.instruction = a.memory.instruction;
  return a == b;
}

TEST(Folding, ChangesNothing) {
  EXPECT_TRUE(rc::check("folded and unfolded programs agree", [] {
    const Case c = any_case();
    const Program folded = lower(c.plan, c.model, true), whole = lower(c.plan, c.model, false);
    const auto devices = static_cast<std::int64_t>(whole.ranks.size() / folded.ranks.size());
    RC_ASSERT(validate(folded).ok());
    RC_ASSERT(validate(whole).ok());
    Simulator simulator;
    const Result<Simulation> a = simulator.run(folded, costs_of(c.timing, folded.structure())),
                             b = simulator.run(whole, costs_of(c.timing, whole.structure()));
    RC_ASSERT(a.ok() && b.ok());
    // Unfolded, the exchange of a shared table meets its partners; a folded one starts when its own stage is ready.
    const bool exchanges = !folded.structure().table_chunks.empty();
    if (exchanges) RC_ASSERT(a->iteration_ns <= b->iteration_ns);
    if (exchanges) return;
    RC_ASSERT(a->iteration_ns == b->iteration_ns);
    RC_ASSERT(whole.ranks[static_cast<std::size_t>(b->last_rank)].device() ==
              folded.ranks[static_cast<std::size_t>(a->last_rank)].device());
    for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
      const RankClass& rank = whole.ranks[r];
      RC_ASSERT(folded.ranks[rank.stage.index()].represents() == devices);
      RC_ASSERT(rank.device() == static_cast<std::int64_t>(r));
      RC_ASSERT(same(a->ranks[rank.stage.index()], b->ranks[r]));
    }
  }));
}

/// Returns the latest end of all that instruction i waits for, including streams and transfers, read from the spans.
std::int64_t earliest_start(const Program& program, const std::vector<Span>& spans, const RankClass& rank, std::int32_t i) {
  const auto at = [&](std::int32_t k) -> const Instruction& { return program.instructions[static_cast<std::size_t>(k)]; };
  const auto end = [&](std::int32_t k) { return k < 0 ? 0 : spans[static_cast<std::size_t>(k)].end_ns; };
  std::int64_t start = std::max(end(at(i).wait0), end(at(i).wait1));
  for (std::int32_t k = i - 1; k >= rank.begin; --k) {
    if (at(k).stream != at(i).stream) continue;
    start = std::max(start, end(k));
    break;
  }
  return start;
}

// There are two devices, one stage and two micro-batches: F B F B of 1 ns each, then the reduction. Device 0 is
// modified to be ready for it after its first backward, at 2; device 1 only at 4. Both reduce from 4 to 9.
TEST(Folding, DevicesOfAGroupMeet) {
  Plan plan;
  plan.only_pipeline().schedule = {ScheduleKind::one_f_one_b, 1, 1, 2, 1};
  Strategy strategy;
  strategy.dp = 2;
  plan.only_pipeline().stages = {{{{0, 2, 1}}, {{{{0, 0, strategy}}}}}};
  Program program = lower(plan, Model{}, false);
  ASSERT_EQ(program.instructions[4].kind, InstructionKind::grad_reduce);
  program.instructions[4].wait0 = 1;
  cost::test::ByChunk timing = testing::uniform(plan.only_pipeline().schedule, 1, 1, 0);
  timing.chunks[0].grad_reduce_ns = 5;
  const Simulation s = Simulator().run(program, costs_of(timing, program.structure()), {true}).value();
  EXPECT_EQ(s.spans[4], (Span{4, 9}));
  EXPECT_EQ(s.spans[10], (Span{4, 9}));
  timing.chunks[0].backward.compute_ns = 10;  // 2 × 11; device 0 starts to reduce when device 1 does
  EXPECT_EQ(Simulator().run(program, costs_of(timing, program.structure()), {true})->spans[4], (Span{22, 27}));
}

TEST(Simulation, EveryInstructionStartsWhenItMay) {
  EXPECT_TRUE(rc::check("start = latest of stream, waits and transfer; never shorter than stand-alone", [] {
    Case c = any_case();
    bool independent = true;
    for (cost::test::StageRow& stage : c.timing.stages) {
      if (stage.slowdown.in_turn()) stage.slowdown.compute = 1.0;
      independent = independent && stage.slowdown == cost::MutualSlowdown{};
    }
    const Program program = lower(c.plan, c.model, true);
    const Simulation s = Simulator().run(program, costs_of(c.timing, program.structure()), {true}).value();
    Durations alone;
    const cost::Costs costs = costs_of(c.timing, program.structure());  // must outlive `alone`
    alone.fill(program, costs);
    for (const RankClass& rank : program.ranks) {
      for (std::int32_t i = rank.begin; i < rank.end; ++i) {
        const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
        const Span& span = s.spans[static_cast<std::size_t>(i)];
        const std::int64_t start = earliest_start(program, s.spans, rank, i);
        if (x.kind == InstructionKind::recv) {
          RC_ASSERT(span.end_ns == std::max(start, s.spans[static_cast<std::size_t>(x.match)].end_ns));
          continue;
        }
        RC_ASSERT(span.start_ns == start);
        const std::int64_t took = span.end_ns - span.start_ns, length = alone.of(x);
        RC_ASSERT(took >= length);
        RC_ASSERT(took == length || (!independent && (x.stream == Stream::compute || x.stream == Stream::data)));
      }
    }
  }));
}

TEST(Simulation, BreakdownSumsAndRepeats) {
  EXPECT_TRUE(rc::check("five parts sum to the iteration on every rank; a used simulator gives the same answer", [] {
    const Case c = any_case();
    const Program program = lower(c.plan, c.model, true);
    Simulator simulator;
    const Result<Simulation> first = simulator.run(program, costs_of(c.timing, program.structure()), {true});
    const Case other = any_case();
    const Program another = lower(other.plan, other.model, true);
    simulator.iteration_ns(another, costs_of(other.timing, another.structure()));
    const Result<Simulation> second = simulator.run(program, costs_of(c.timing, program.structure()), {true});
    RC_ASSERT(first.ok() && second.ok());
    RC_ASSERT(first.value() == second.value());
    RC_ASSERT(simulator.iteration_ns(program, costs_of(c.timing, program.structure())) == first->iteration_ns);
    std::int64_t latest = 0;
    for (const RankOutcome& rank : first->ranks) {
      RC_ASSERT(rank.breakdown.total_ns() == first->iteration_ns);
      RC_ASSERT(rank.breakdown.bubble_ns >= 0 && rank.breakdown.exposed_communication_ns >= 0);
      latest = std::max(latest, rank.end_ns);
    }
    RC_ASSERT(latest == first->iteration_ns);
  }));
}

}  // namespace
}  // namespace espalier::sim
