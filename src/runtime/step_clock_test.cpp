// SPDX-License-Identifier: Apache-2.0
// Tests the measured side of a timeline: rows and operators of a step, the step of median length, and several ranks.
#include "runtime/step_clock.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>

#include "base/invariant.h"
#include "runtime/testing.h"

namespace espalier::runtime::testing::step_clock_test {
namespace {

using ::testing::HasSubstr;

void spin(std::chrono::microseconds time) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < time) {
  }
}

MeasuredStep written(const StepClock& clock) {
  const ScratchFolder folder;
  const std::string path = folder.file("timeline.json");
  EXPECT_TRUE(clock.write(path, "plan", nullptr).ok());
  const auto step = read_measured_step(text_of(path), path);
  EXPECT_TRUE(step.ok()) << step.error().message();
  return step.ok() ? *step : MeasuredStep();
}

// Row 0 is a computation of 300 µs, row 1 a message for which nothing waited.
TEST(StepClock, RowsLieInsideTheStep) {
  StepClock clock(7, 2);
  clock.begin_step(3);
  clock.waited(0, 1e-6);
  clock.waited(0, 2e-6);
  clock.begin(0);
  spin(std::chrono::microseconds(300));
  EXPECT_FALSE(clock.ended(0));
  clock.end(0);
  EXPECT_TRUE(clock.ended(0));
  clock.inside(0, 1e-4, 5e-5);
  clock.end_step();
  const MeasuredStep step = written(clock);
  EXPECT_EQ(step.step, 3);
  EXPECT_EQ(step.plan, "plan");
  ASSERT_EQ(step.ranks.size(), 1u);
  const MeasuredRank& rank = step.ranks[0];
  EXPECT_EQ(rank.device, 7);
  EXPECT_EQ(rank.start_ns, 0);
  ASSERT_EQ(rank.instructions.size(), 2u);
  const MeasuredInstruction &computed = rank.instructions[0], &unwaited = rank.instructions[1];
  EXPECT_GE(computed.end_ns - computed.start_ns, 300000);
  EXPECT_EQ(computed.operators_ns, 100000);
  EXPECT_EQ(computed.collectives_ns, 50000);
  EXPECT_EQ(computed.waited_ns, 3000);
  EXPECT_EQ(unwaited.start_ns, rank.end_ns);
  EXPECT_EQ(unwaited.end_ns, rank.end_ns);
}

// Clocks of operators and of instructions are read apart: parts never exceed the whole.
TEST(StepClock, PartsAreCutToTheWhole) {
  StepClock clock(0, 1);
  clock.begin_step(0);
  clock.begin(0);
  clock.end(0);
  clock.inside(0, 1, 1);
  clock.end_step();
  const MeasuredInstruction row = written(clock).ranks.at(0).instructions.at(0);
  EXPECT_EQ(row.operators_ns, row.end_ns - row.start_ns);
  EXPECT_EQ(row.collectives_ns, 0);
}

// Two forwards of one operator are one row; a repeated forward is another, a gradient never is.
TEST(StepClock, OperatorsAreSummedByPassAndRepetition) {
  StepClock clock(0, 0);
  clock.begin_step(0);
  clock.ran(1, 2, OperatorPass::forward, 1e-6);
  clock.ran(1, 2, OperatorPass::forward, 3e-6);
  clock.repeats(true);
  clock.ran(1, 2, OperatorPass::forward, 5e-6);
  clock.ran(1, 2, OperatorPass::input_gradient, 7e-6);
  clock.repeats(false);
  clock.end_step();
  const auto operators = written(clock).ranks.at(0).operators;
  ASSERT_EQ(operators.size(), 3u);
  EXPECT_EQ(operators[0], (MeasuredOperator{1, 2, OperatorPass::forward, false, 2, 4000}));
  EXPECT_EQ(operators[1], (MeasuredOperator{1, 2, OperatorPass::forward, true, 1, 5000}));
  EXPECT_EQ(operators[2], (MeasuredOperator{1, 2, OperatorPass::input_gradient, false, 1, 7000}));
}

// Steps 0, 1 and 2 last 2, 40 and 10 ms: step 2 is the median.
TEST(StepClock, TheStepOfMedianLengthIsWritten) {
  StepClock clock(0, 0);
  std::int64_t number = 0;
  for (const int ms : {2, 40, 10}) {
    clock.begin_step(number++);
    spin(std::chrono::milliseconds(ms));
    clock.end_step();
  }
  const MeasuredStep step = written(clock);
  EXPECT_EQ(step.step, 2);
  EXPECT_EQ(step.steps, 3);
}

TEST(StepClock, OldStepsAreDropped) {
  StepClock clock(0, 0);
  for (std::int64_t number = 0; number < 100; ++number) {
    clock.begin_step(number);
    clock.end_step();
  }
  EXPECT_EQ(written(clock).steps, static_cast<std::int64_t>(StepClock::kKept));
  clock.restart();
  EXPECT_THROW(static_cast<void>(clock.write("unused", "plan", nullptr)), base::InternalError);
}

// Clocks of threads are one clock: their difference is within its error bound, and rows keep their rank.
TEST(StepClock, RanksHandOverTheirRows) {
  const ScratchFolder folder;
  const std::string path = folder.file("timeline.json");
  as_group(3, [&](Communicator& group) {
    StepClock clock(10 + group.rank(), static_cast<std::size_t>(group.rank()) + 1);
    group.barrier();
    clock.begin_step(0);
    clock.ran(group.rank(), 0, OperatorPass::forward, 1e-6);
    clock.end_step();
    EXPECT_TRUE(clock.write(path, "plan", &group).ok());
  });
  const auto step = read_measured_step(text_of(path), path);
  ASSERT_TRUE(step.ok()) << step.error().message();
  ASSERT_EQ(step->ranks.size(), 3u);
  for (std::size_t r = 0; r < 3; ++r) {
    const MeasuredRank& rank = step->ranks[r];
    EXPECT_EQ(rank.device, 10 + static_cast<std::int64_t>(r));
    EXPECT_EQ(rank.instructions.size(), r + 1);
    ASSERT_EQ(rank.operators.size(), 1u);
    EXPECT_EQ(rank.operators[0].layer, static_cast<std::int32_t>(r));
    EXPECT_EQ(rank.clock_error_ns > 0, r > 0);
    EXPECT_LT(std::abs(rank.start_ns), 1000000000);
  }
}

TEST(StepClock, AFileThatCannotBeWrittenIsAnError) {
  StepClock clock(0, 0);
  clock.begin_step(0);
  clock.end_step();
  const Status failed = clock.write("/nonexistent/timeline.json", "plan", nullptr);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message(), HasSubstr("--timeline"));
}

}  // namespace
}  // namespace espalier::runtime::testing::step_clock_test
