// SPDX-License-Identifier: Apache-2.0
// Tests that the bound never exceeds the simulated time; otherwise branch and bound would prove nothing.
#include "cost/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "random_timing.h"
#include "sim/simulator.h"

namespace espalier::property::bound_test {
namespace {

const int kPrograms = cases(40'000, 1'000'000);

// One stage and one micro-batch with F = 10, B = 20 and optimizer 5 have no overlap, so the bound is the time, 35 ns.
TEST(BoundHolds, SmallestExample) {
  TimedProgram x;
  x.structure.buckets = {1};
  x.timing = cost::test::empty_rows(x.structure.schedule);
  x.timing.chunks[0].forward.compute_ns = 10;
  x.timing.chunks[0].backward.compute_ns = 20;
  x.timing.stages[0].optimizer_ns = 5;
  sim::Simulator simulator;
  EXPECT_EQ(simulator.iteration_ns(lower(x.structure), costs_of(x.timing, x.structure)), 35);
  EXPECT_EQ(cost::iteration_lower_bound_ns(costs_of(x.timing, x.structure), x.structure), 35);
}

/// Holds the smallest program that breaks a property, for a readable message.
struct Counterexample {
  int count = 0;
  std::size_t size = SIZE_MAX;
  std::string text;
  void add(const TimedProgram& x, const std::string& what) {
    const std::size_t its = x.timing.chunks.size() * 100 + static_cast<std::size_t>(x.structure.schedule.microbatches);
    ++count;
    if (its < size) {
      size = its;
      text = what + "\n" + describe(x);
    }
  }
};

TEST(BoundHolds, TimeOfRandomPrograms) {
  Random random(1);
  sim::Simulator simulator;
  Counterexample worst;
  int tight = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const TimedProgram x = any_program(random);
    const std::int64_t time = simulator.iteration_ns(lower(x.structure), costs_of(x.timing, x.structure));
    const std::int64_t bound = cost::iteration_lower_bound_ns(costs_of(x.timing, x.structure), x.structure);
    ASSERT_GE(time, 0) << describe(x);
    tight += bound == time;
    if (bound > time) worst.add(x, "bound " + std::to_string(bound) + " > time " + std::to_string(time));
  }
  EXPECT_EQ(worst.count, 0) << worst.text;
  EXPECT_GT(tight, kPrograms / 20);  // a bound that is never reached would be too weak to test
}

TEST(BoundHolds, MemoryOfRandomPrograms) {
  Random random(2);
  sim::Simulator simulator;
  Counterexample activations, bytes;
  int tight = 0;
  std::vector<std::int64_t> peaks;
  for (int i = 0; i < kPrograms; ++i) {
    const TimedProgram x = any_program(random);
    const Schedule& s = x.structure.schedule;
    const cost::Costs costs = costs_of(x.timing, x.structure);
    simulator.peak_bytes(lower(x.structure), costs, peaks);
    for (std::int32_t stage = 0; stage < s.stages; ++stage) {
      const std::int64_t held = cost::activations_lower_bound_bytes(costs, x.structure, stage);
      const std::int64_t fixed = x.timing.stages[static_cast<std::size_t>(stage)].memory.total();
      const std::int64_t bound = cost::peak_bytes(fixed, held, x.timing.allocator_reserve),
                         peak = peaks[static_cast<std::size_t>(stage)];
      tight += bound == peak;
      if (bound > peak)
        bytes.add(x, "stage " + std::to_string(stage) + " bound " + std::to_string(bound) + " > peak " + std::to_string(peak));
    }
  }
  EXPECT_EQ(bytes.count, 0) << bytes.text;
  EXPECT_GT(tight, kPrograms);
}

/// Lengthening any duration never shortens the bound; bounds of whole subtrees rely on it.
TEST(BoundHolds, GrowsWithEveryDuration) {
  Random random(3);
  Counterexample worst;
  for (int i = 0; i < kPrograms / 4; ++i) {
    const TimedProgram x = any_program(random);
    TimedProgram y = x;
    for (cost::test::ChunkRow& t : y.timing.chunks) {
      const std::int64_t more = any_scale(random);
      for (cost::PhaseTime* phase : {&t.forward, &t.backward, &t.backward_input, &t.backward_weight})
        if (random.one_in(4)) phase->exposed_ns += random.between(0, more);
      for (std::int64_t* ns : {&t.grad_reduce_ns, &t.param_gather_ns})
        if (random.one_in(4)) *ns += random.between(0, more);
      if (t.send_forward_ns > 0 && random.one_in(4)) t.send_forward_ns += random.between(0, more);
      if (t.send_backward_ns > 0 && random.one_in(4)) t.send_backward_ns += random.between(0, more);
    }
    for (cost::test::StageRow& t : y.timing.stages) t.optimizer_ns += random.between(0, any_scale(random));
    if (cost::iteration_lower_bound_ns(costs_of(x.timing, x.structure), x.structure) >
        cost::iteration_lower_bound_ns(costs_of(y.timing, y.structure), y.structure))
      worst.add(x, "shrank");
  }
  EXPECT_EQ(worst.count, 0) << worst.text;
}

}  // namespace
}  // namespace espalier::property::bound_test
