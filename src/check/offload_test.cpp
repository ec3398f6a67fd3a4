// SPDX-License-Identifier: Apache-2.0
// Tests what plans keep in host memory: four blocks on two stages, one micro-batch of 128 tokens after the other.
#include <gtest/gtest.h>

#include "check/stage_peaks.h"
#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;

Case offloaded(Offload offload, double link = 1e12, std::int32_t stages = 2) {
  Case c = make_case(model_of(gpt(4)), {}, schedule_of(ScheduleKind::one_f_one_b, stages, 1, 4));
  c.cluster.groups.front().host = {GiB(1), GBps(100), BytesPerSecond(link), {}};
  Strategy s;
  s.offload = offload;
  const Plan before = c.plan;
  c.plan = make_uniform_plan(c.model, c.cluster, before.training, before.engine, s, before.only_pipeline().schedule,
                             SplitPolicy::balanced);
  c.lower_again();
  c.claims = truthful_claims(make_view(c.plan, c.model, c.cluster), c.program);
  return c;
}

TEST(CheckOffload, AcceptsWhatIsTrue) {
  using enum Offload;
  for (const Offload o : {optimizer, activations, optimizer_activations, parameters, parameters_activations}) {
    const CheckReport report = offloaded(o).check();
    EXPECT_TRUE(report.ok()) << to_string(o) << ": " << broken(report);
    EXPECT_NE(find(report, "host-memory"), nullptr);
  }
}

// A stage offloads everything that its blocks keep, first for two micro-batches in flight, then for one.
TEST(CheckOffload, ActivationsOfAllMicroBatchesWaitOnTheHost) {
  const Case here = offloaded(Offload::none), there = offloaded(Offload::activations);
  const View view = make_view(there.plan, there.model, there.cluster);
  const std::vector<std::int64_t> hosted = hosted_bytes_per_chunk(view), waiting = waiting_on_hosts(view, there.program);
  ASSERT_GT(hosted[0], 0);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(waiting[i], (2 - static_cast<std::int64_t>(i)) * hosted[i]);
    EXPECT_EQ(here.claims.saved_bytes_per_chunk[i] - there.claims.saved_bytes_per_chunk[i], hosted[i]);
  }
  EXPECT_EQ(offloaded(Offload::optimizer).claims.saved_bytes_per_chunk, here.claims.saved_bytes_per_chunk);
}

TEST(CheckOffload, ParametersTakeAllStatesAlong) {
  const Case c = offloaded(Offload::parameters);
  const View view = make_view(c.plan, c.model, c.cluster);
  const Case here = offloaded(Offload::none);
  EXPECT_EQ(static_bytes_per_stage(view), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(host_bytes_per_stage(view), here.claims.static_bytes_per_stage);
}

TEST(CheckOffload, HostsThatDoNotHoldItAreNamed) {
  Case c = offloaded(Offload::activations);
  const View view = make_view(c.plan, c.model, c.cluster);
  Host& host = c.cluster.groups.front().host;
  const std::int64_t need = waiting_on_hosts(view, c.program).front() * c.cluster.groups.front().devices_per_node;
  host.memory = Bytes(need);
  EXPECT_TRUE(c.check().ok()) << broken(c.check());
  host.memory = Bytes(need - 1);
  EXPECT_FALSE(find(c.check(), "host-memory")->ok);
}

// A planner may forget the bytes that stay on the device, or the time of copies.
TEST(CheckOffload, WrongClaimsAreFound) {
  Case c = offloaded(Offload::activations);
  c.claims.saved_bytes_per_chunk = offloaded(Offload::none).claims.saved_bytes_per_chunk;
  EXPECT_FALSE(find(c.check(), "saved-activations")->ok);
  c = offloaded(Offload::parameters);
  c.claims.static_bytes_per_stage = offloaded(Offload::none).claims.static_bytes_per_stage;
  EXPECT_FALSE(find(c.check(), "static-memory")->ok);
  c = offloaded(Offload::parameters);
  c.claims.peak_bytes_per_stage = {1, 1};  // leaves out the gathered layers
  EXPECT_FALSE(find(c.check(), "peak-memory")->ok);
  for (const Offload o : {Offload::activations, Offload::parameters}) {
    c = offloaded(o, 1e6);
    const std::int64_t least = step_time(make_view(c.plan, c.model, c.cluster), c.program).least_ns;
    c.claims.iteration_ns = offloaded(o).claims.iteration_ns;
    EXPECT_GT(least, 2 * c.claims.iteration_ns);
    EXPECT_FALSE(find(c.check(), "time-bounds")->ok) << to_string(o);
  }
}

}  // namespace
}  // namespace espalier::check
