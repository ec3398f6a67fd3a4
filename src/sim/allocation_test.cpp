// SPDX-License-Identifier: Apache-2.0
// Tests that the inner loop of the search does not allocate, by counting calls of operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sim/simulator.h"
#include "sim/testing.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort requests its buffer this way. Every form must allocate with malloc, as every form is freed.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace espalier::sim {
namespace {

TEST(Simulator, TheInnerLoopDoesNotAllocate) {
  ProgramStructure low = testing::structure(ScheduleKind::interleaved, 4, 2, 16, 4);
  low.reduce_gradients = low.overlap_reduce = low.gather_parameters = low.overlap_gather = true;
  const Program program = lower(low), smaller = lower(testing::structure(ScheduleKind::one_f_one_b, 3, 1, 5));
  cost::test::ByChunk timing = testing::uniform(low.schedule, 100, 100, 100);
  for (cost::test::ChunkRow& chunk : timing.chunks) chunk.grad_reduce_ns = chunk.param_gather_ns = 50;
  timing.slow_down({1.3, 1.3});
  const cost::Costs costs = costs_of(timing, low);
  const cost::Costs small_costs = costs_of(testing::uniform(smaller.schedule(), 1, 1, 1), smaller.structure());
  Simulator simulator;
  std::vector<std::int64_t> peaks;
  simulator.iteration_ns(program, costs);
  simulator.peak_bytes(program, costs, peaks);
  const long before = allocations;
  ASSERT_GT(before, 0);
  for (int k = 0; k < 3; ++k) {
    simulator.iteration_ns(smaller, small_costs);
    simulator.iteration_ns(program, costs);
    simulator.peak_bytes(program, costs, peaks);
  }
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace espalier::sim
