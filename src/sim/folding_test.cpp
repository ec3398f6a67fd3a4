// SPDX-License-Identifier: Apache-2.0
// Folding changes nothing: one representative per stage gives the same times, breakdowns and memory as every device.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>

#include "sim/engine.h"
#include "sim/simulator.h"
#include "sim/testing.h"

namespace espalier::sim {
namespace {

struct Case {
  Plan plan;
  Model model;
  cost::PlanTiming timing;
};

std::int64_t up_to(std::int64_t limit) { return *rc::gen::inRange<std::int64_t>(0, limit + 1); }
cost::PhaseTime any_phase() { return {up_to(1000), up_to(100), up_to(20), up_to(100)}; }

Schedule any_schedule() {
  Schedule s;
  s.kind = *rc::gen::element(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1,
                             ScheduleKind::zb_v);
  s.stages = *rc::gen::element(1, 2, 3, 4);
  s.virtual_stages = s.kind == ScheduleKind::zb_v ? 2 : s.kind == ScheduleKind::interleaved ? *rc::gen::inRange(1, 4) : 1;
  s.microbatches = *rc::gen::inRange(1, 10);
  return s;
}

Strategy any_strategy() {
  Strategy s;
  s.tp = *rc::gen::element(1, 2);
  s.cp = *rc::gen::element(1, 2);
  s.dp = *rc::gen::element(1, 2, 3);
  s.sp = *rc::gen::element(SequenceParallel::none, SequenceParallel::ulysses);
  s.zero = *rc::gen::inRange(0, 4);
  s.shard = s.zero > 0 ? static_cast<std::int32_t>(s.data_ranks()) : 1;
  s.overlap = {*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>(), false};
  return s;
}

/// A plan with the fields that lowering reads: devices stage after stage, a few layers a chunk.
Plan any_plan() {
  Plan plan;
  plan.schedule = any_schedule();
  const Strategy strategy = any_strategy();
  const std::int64_t devices = std::int64_t{strategy.tp} * strategy.cp * strategy.dp;
  for (std::int32_t i = 0; i < plan.schedule.stages; ++i) {
    Stage stage;
    stage.devices = {{i * devices, devices, 1}};
    for (std::int32_t k = 0; k < plan.schedule.virtual_stages; ++k) {
      stage.chunks.push_back({0, *rc::gen::inRange(0, 5), strategy});  // only the number of layers matters here
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

Case any_case() {
  Case c;
  c.plan = any_plan();
  c.model.tied_embeddings = *rc::gen::arbitrary<bool>();
  c.model.vocabulary = 1;
  const Schedule& s = c.plan.schedule;
  c.timing = testing::uniform(s, 0, 0, 0);
  for (cost::ChunkTiming& chunk : c.timing.chunks) {
    chunk.forward = any_phase(), chunk.backward = any_phase();
    chunk.backward_input = any_phase(), chunk.backward_weight = any_phase();
    chunk.send_forward_ns = up_to(50), chunk.send_backward_ns = up_to(50);
    chunk.grad_reduce_ns = up_to(400), chunk.param_gather_ns = up_to(400);
    chunk.saved_after_input_bytes = up_to(500);
    chunk.saved_bytes = chunk.saved_after_input_bytes + up_to(500);
    chunk.forward_transient_bytes = up_to(50), chunk.backward_transient_bytes = up_to(50);
  }
  for (cost::StageTiming& stage : c.timing.stages) {
    stage.optimizer_ns = up_to(100), stage.tied_reduce_ns = up_to(100), stage.memory.parameters = up_to(5000);
  }
  c.timing.compute_slowdown = 1.0 + static_cast<double>(up_to(300)) / 100.0;
  c.timing.communication_slowdown = 1.0 + static_cast<double>(up_to(300)) / 100.0;
  if (*rc::gen::arbitrary<bool>()) c.timing.compute_slowdown = c.timing.communication_slowdown = 1.0;
  c.timing.allocator_reserve = static_cast<double>(up_to(100)) / 1000.0;
  return c;
}

/// Equal up to which instruction of the array reached the memory peak.
bool same(const RankOutcome& a, RankOutcome b) {
  b.memory.instruction = a.memory.instruction;
  return a == b;
}

TEST(Folding, ChangesNothing) {
  EXPECT_TRUE(rc::check("folded and unfolded programs agree", [] {
    const Case c = any_case();
    const Program folded = lower(c.plan, c.model, true), whole = lower(c.plan, c.model, false);
    const auto devices = static_cast<std::int64_t>(whole.ranks.size() / folded.ranks.size());
    RC_ASSERT(!validate(folded));
    RC_ASSERT(!validate(whole));
    Simulator simulator;
    const Result<Simulation> a = simulator.run(folded, c.timing), b = simulator.run(whole, c.timing);
    RC_ASSERT(a.ok() && b.ok());
    RC_ASSERT(a->iteration_ns == b->iteration_ns);
    RC_ASSERT(whole.ranks[static_cast<std::size_t>(b->last_rank)].device ==
              folded.ranks[static_cast<std::size_t>(a->last_rank)].device);
    for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
      const RankProgram& rank = whole.ranks[r];
      RC_ASSERT(folded.ranks[static_cast<std::size_t>(rank.stage)].represents == devices);
      RC_ASSERT(rank.device == static_cast<std::int64_t>(r));
      RC_ASSERT(same(a->ranks[static_cast<std::size_t>(rank.stage)], b->ranks[r]));
    }
  }));
}

/// Latest end of what instruction i waits for, streams and transfers included, read off the spans.
std::int64_t earliest_start(const Program& program, const std::vector<Span>& spans, const RankProgram& rank, std::int32_t i) {
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

TEST(Simulation, EveryInstructionStartsWhenItMay) {
  EXPECT_TRUE(rc::check("start = latest of stream, waits and transfer; never shorter than stand-alone", [] {
    Case c = any_case();
    if (1.0 / c.timing.compute_slowdown + 1.0 / c.timing.communication_slowdown < 1.0) c.timing.compute_slowdown = 1.0;
    const bool independent = c.timing.compute_slowdown == 1.0 && c.timing.communication_slowdown == 1.0;
    const Program program = lower(c.plan, c.model, true);
    const Simulation s = Simulator().run(program, c.timing, {true}).value();
    Durations alone;
    alone.fill(program, c.timing);
    for (const RankProgram& rank : program.ranks) {
      for (std::int32_t i = rank.begin; i < rank.end; ++i) {
        const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
        const Span& span = s.spans[static_cast<std::size_t>(i)];
        const std::int64_t start = earliest_start(program, s.spans, rank, i);
        if (x.kind == InstructionKind::recv) {
          RC_ASSERT(span.end_ns == std::max(start, s.spans[static_cast<std::size_t>(x.match)].end_ns));
          continue;
        }
        RC_ASSERT(span.start_ns == start);
        const std::int64_t took = span.end_ns - span.start_ns, length = alone.of(x, rank.stage);
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
    const Result<Simulation> first = simulator.run(program, c.timing, {true});
    const Case other = any_case();
    simulator.iteration_ns(lower(other.plan, other.model, true), other.timing);
    const Result<Simulation> second = simulator.run(program, c.timing, {true});
    RC_ASSERT(first.ok() && second.ok());
    RC_ASSERT(first.value() == second.value());
    RC_ASSERT(simulator.iteration_ns(program, c.timing) == first->iteration_ns);
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
