// SPDX-License-Identifier: Apache-2.0
// Tests that the peaks that the search uses, computed without a program, equal those of the simulator's replay
// of the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost/peak_memory.h"
#include "planner/simulated_evaluator.h"
#include "random_timing.h"
#include "sim/simulator.h"

namespace espalier::property::exact_memory_test {
namespace {

const int kPrograms = cases(20'000, 500'000);

// Two stages run 1F1B with two micro-batches. Stage 0 holds both passes, 2·10, and the 3 of a backward; stage 1 holds
// one pass of 10 and 3. Static memory is 100 and 50 with no reserve: 123 and 63.
TEST(ExactMemory, SmallestExample) {
  ProgramStructure structure;
  structure.schedule = {ScheduleKind::one_f_one_b, 2, 1, 2, 1};
  structure.buckets = {1, 1};
  cost::test::ByChunk timing = cost::test::empty_rows(structure.schedule);
  for (cost::test::ChunkRow& t : timing.chunks) {
    t.saved_bytes = t.saved_after_input_bytes = 10;
    t.forward_transient_bytes = 1;
    t.backward_transient_bytes = 3;
  }
  timing.stages[0].memory.parameters = 100;
  timing.stages[1].memory.parameters = 50;
  const cost::Costs costs = costs_of(timing, structure);
  cost::PeakMemory memory;
  EXPECT_EQ(memory.stage_bytes(costs, structure, 0), 123);
  EXPECT_EQ(memory.stage_bytes(costs, structure, 1), 63);
  EXPECT_EQ(memory.fullest_bytes(costs, structure), 123);
}

TEST(ExactMemory, EqualsTheReplayOfRandomPrograms) {
  Random random(11);
  sim::Simulator simulator;
  planner::SimulatedEvaluator evaluator(1);
  cost::PeakMemory memory;
  std::vector<std::int64_t> replayed;
  for (int i = 0; i < kPrograms; ++i) {
    const TimedProgram x = any_program(random);
    const cost::Costs costs = costs_of(x.timing, x.structure);
    simulator.peak_bytes(lower(x.structure), costs, replayed);
    for (std::int32_t stage = 0; stage < x.structure.schedule.stages; ++stage)
      ASSERT_EQ(memory.stage_bytes(costs, x.structure, stage), replayed[static_cast<std::size_t>(stage)])
          << "stage " << stage << "\n"
          << describe(x);
    ASSERT_EQ(evaluator.peak_bytes(x.structure, costs, 0), *std::max_element(replayed.begin(), replayed.end())) << describe(x);
  }
  EXPECT_EQ(evaluator.lowered(), 0);
}

}  // namespace
}  // namespace espalier::property::exact_memory_test
