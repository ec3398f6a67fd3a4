// SPDX-License-Identifier: Apache-2.0
// Tests kernels, collectives, peaks and the longest path by hand.
#include <gtest/gtest.h>

#include "check/graph.h"
#include "check/kernels.h"
#include "check/network_time.h"
#include "check/test_problem.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

using namespace test;

// 100 TFLOP/s · 0.88 sustained · 0.75 gives 6.6·10¹³. 1024³: c = 2³¹/6.6·10¹³ = 32.54 µs (times the engine's
// slowdown), b = 6 MiB/(10¹² · 0.75) = 8.39 µs, f₀ = 2 µs.
TEST(Kernels, AProductByHand) {
  const Case c = make_case(model_of(gpt(1)), {}, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const View view = make_view(c.plan, c.model, c.cluster);
  const Kernels k(view);
  const double slower = view.engine.coefficients.compute;
  EXPECT_NEAR(k.multiply(k.wide, 1024, 1024, 1024, 2), 2e-6 + std::hypot(32.538e-6 * slower, 8.389e-6), 1e-9);
  EXPECT_NEAR(k.move(8e5), 2e-6 + 1e-6, 1e-12);  // 0.8 · 10¹² bytes/s
}

// A bare launch takes 6 µs. Modules of eager PyTorch take nine of them each, this framework twice as long. Each
// message between the two stages makes 100 bare launches.
TEST(Kernels, CallsAroundMessagesAreBareLaunches) {
  Case c = make_case(model_of(gpt(2)), {}, schedule_of(ScheduleKind::one_f_one_b, 2, 1, 1));
  c.cluster.groups.front().device.efficiency.kernel_launch = microseconds(6);
  View view = make_view(c.plan, c.model, c.cluster);
  view.engine.kernels.host_launches = 9;
  view.engine.coefficients.launch = 2;
  EXPECT_NEAR(Kernels(view).launch, 108e-6, 1e-12);
  EXPECT_NEAR(Kernels(view).call, 6e-6, 1e-12);
  const StepTimeRange quiet = step_time(view, c.program);
  view.engine.eager.message_host_calls = 100;
  const StepTimeRange talks = step_time(view, c.program);  // one message in each direction
  EXPECT_NEAR(static_cast<double>(talks.least_ns - quiet.least_ns), 2 * 600e3, 1e3);
}

// Four devices share one link of 100 GB/s · 0.8 without latency. Three quarters of 1 GB travel, in 9.375 ms; a
// reduction takes twice that.
TEST(Fabric, CollectivesByHand) {
  Strategy s;
  s.tp = 4;
  const Case c = make_case(model_of(gpt(1)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const View view = make_view(c.plan, c.model, c.cluster);
  for (const End end : {End::least, End::most}) {
    const FabricTimes fabric(view, 1.0, end);
    const RankGroup group = fabric.tensor(view);
    EXPECT_TRUE(group.aligned);
    EXPECT_NEAR(fabric.gather(group, 1e9), 9.375e-3, 1e-9);
    EXPECT_NEAR(fabric.reduce(group, 1e9), 18.75e-3, 1e-9);
    EXPECT_NEAR(fabric.exchange(group, 1e9), 9.375e-3, 1e-9);
  }
}

// Paths 1 → 2 → 4 and 1 → 3 → 4 have nodes of 5, 7, 2, 1: the longest path is 5 + 7 + 1.
TEST(Graph, LongestPath) {
  Graph graph(4);
  graph.add(0, 1);
  graph.add(0, 2);
  graph.add(1, 3);
  graph.add(2, 3);
  EXPECT_EQ(graph.ends({5, 7, 2, 1}), (std::vector<std::int64_t>{5, 12, 7, 13}));
}

// One device has embedding, block and head. It holds the states of E elements, two workspaces of 32 MiB (a device
// with fp8), and everything that the three layers keep. The loss adds 128 tokens · 1000 logits · 2 bytes. The reserve
// is 6 %.
TEST(PeakMemory, OneMicroBatchByHand) {
  const Case c = make_case(model_of(gpt(1)), {}, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const View view = make_view(c.plan, c.model, c.cluster);
  const auto fixed = static_bytes_per_stage(view), saved = saved_bytes_per_chunk(view);
  const auto peak = peak_bytes_per_stage(view, c.program, fixed, saved);
  const double tensors = static_cast<double>(fixed.front() + 2 * (std::int64_t{32} << 20) + saved.front() + 128 * 1000 * 2);
  EXPECT_NEAR(static_cast<double>(peak.front().least), 1.06 * tensors, 2.0);
  EXPECT_EQ(peak.front().least, peak.front().most);
}

// In the steady state every further micro-batch costs the same: from 8 to 16 twice as much as from 4 to 8, for both
// bounds.
TEST(StepTime, GrowsWithTheMicroBatches) {
  std::vector<StepTimeRange> times;
  for (const std::int32_t m : {4, 8, 16}) {
    const Case c = make_case(model_of(gpt(6)), {}, schedule_of(ScheduleKind::one_f_one_b, 2, 1, m));
    times.push_back(step_time(make_view(c.plan, c.model, c.cluster), c.program));
    EXPECT_LT(times.back().least_ns, times.back().most_ns);
  }
  const auto grows_evenly = [&](std::int64_t StepTimeRange::*end) {
    const auto first = static_cast<double>(times[1].*end - times[0].*end),
               second = static_cast<double>(times[2].*end - times[1].*end);
    EXPECT_GT(first, 0);
    EXPECT_NEAR(second, 2 * first, 0.01 * first);
  };
  grows_evenly(&StepTimeRange::least_ns);
  grows_evenly(&StepTimeRange::most_ns);
}

}  // namespace
}  // namespace espalier::check
