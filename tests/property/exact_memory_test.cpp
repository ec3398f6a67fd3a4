// SPDX-License-Identifier: Apache-2.0
// The peaks that the search judges by, made without a program, are those that the simulator's replay of the program finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost/peak_memory.h"
#include "planner/simulated_evaluator.h"
#include "random_timing.h"
#include "sim/simulator.h"

namespace espalier::property {
namespace {

const int kPrograms = cases(20'000, 500'000);

// Two stages of 1F1B, two micro-batches. Stage 0 holds both passes, 2·10, and the 3 of a backward; stage 1 one pass of 10 and 3. Static 100
// and 50, nothing reserved: 123 and 63.
TEST(ExactMemory, SmallestExample) {
  cost::PlanTiming timing;
  timing.chunks.resize(2);
  timing.stages.resize(2);
  for (cost::ChunkTiming& t : timing.chunks) {
    t.saved_bytes = t.saved_after_input_bytes = 10;
    t.forward_transient_bytes = 1;
    t.backward_transient_bytes = 3;
  }
  timing.stages[0].memory.parameters = 100;
  timing.stages[1].memory.parameters = 50;
  const Schedule s{ScheduleKind::one_f_one_b, 2, 1, 2, 1};
  cost::PeakMemory memory;
  EXPECT_EQ(memory.stage_bytes(timing, s, 0), 123);
  EXPECT_EQ(memory.stage_bytes(timing, s, 1), 63);
  EXPECT_EQ(memory.fullest_bytes(timing, s), 123);
}

TEST(ExactMemory, EqualsTheReplayOfRandomPrograms) {
  Random random(11);
  sim::Simulator simulator;
  SimulatedEvaluator evaluator(1);
  cost::PeakMemory memory;
  std::vector<std::int64_t> replayed;
  for (int i = 0; i < kPrograms; ++i) {
    const TimedProgram x = any_program(random);
    simulator.peak_bytes(lower(x.lowering), x.timing, replayed);
    for (std::int32_t stage = 0; stage < x.lowering.schedule.stages; ++stage)
      ASSERT_EQ(memory.stage_bytes(x.timing, x.lowering.schedule, stage), replayed[static_cast<std::size_t>(stage)])
          << "stage " << stage << "\n"
          << describe(x);
    ASSERT_EQ(evaluator.peak_bytes(x.lowering, x.timing, 0), *std::max_element(replayed.begin(), replayed.end())) << describe(x);
  }
  EXPECT_EQ(evaluator.lowered(), 0);
}

}  // namespace
}  // namespace espalier::property
