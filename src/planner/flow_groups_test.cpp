// SPDX-License-Identifier: Apache-2.0
// Checks plans on several node groups under the flow-level network against hand calculations: one path
// between two sites.
#include <gtest/gtest.h>

#include "cost/cluster_costs.h"
#include "plan/engine.h"
#include "planner/flow_prediction.h"
#include "planner/prediction.h"
#include "planner/test_jobs.h"

namespace espalier::planner {
namespace {

constexpr std::int64_t kPipelines = 2;

/// Returns a job on two sites of two devices each, with a line of 1 Gb/s and 10 us between them.
Job two_sites(NetworkKind network) {
  Job job = test::job(
      "llama-2-7b",
      "{groups: [{name: a, nodes: 2, devices_per_node: 1, device: a100-sxm-40gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: "
      "1, "
      "latency: 5us}}, {name: b, nodes: 2, devices_per_node: 1, device: a100-sxm-40gb, inter_node: {bandwidth: 100Gb/s, "
      "nics_per_node: 1, latency: 5us}}], links: [{from: a, to: b, bandwidth: 1Gb/s, latency: 10us, sharing: line, both: true}]}",
      "{sequence_length: 1024, global_batch: 2, precision: fp16}");
  job.network = network;
  return job;
}

/// Returns `pipelines` pipelines of two stages, the first on a device of a, the second on one of b. Each has one
/// micro-batch of one sample.
Plan across(const Job& job, std::int64_t pipelines) {
  Strategy one;
  one.dp = static_cast<std::int32_t>(job.cluster.devices());
  const EngineModel& engine = *engine_of(job).value();
  Plan plan = document_of(job, engine, one, Schedule{});
  plan.training.global_batch = pipelines;
  one.dp = 1;
  const auto layers = static_cast<std::int32_t>(job.model.layers.size());
  plan.pipelines.clear();
  for (std::int64_t k = 0; k < pipelines; ++k) {
    Pipeline pipeline;
    pipeline.id = static_cast<std::int32_t>(k);
    pipeline.schedule = {ScheduleKind::one_f_one_b, 2, 1, 1, 1};
    pipeline.samples = 1;
    pipeline.stages = {Stage{{{k, 1, 1}}, {Chunk{{LayerRange{0, layers / 2 - 1, one}}}}},
                       Stage{{{2 + k, 1, 1}}, {Chunk{{LayerRange{layers / 2, layers - 1, one}}}}}};
    plan.pipelines.push_back(std::move(pipeline));
  }
  return plan;
}

struct Times {
  std::int64_t closed_ns = 0, flow_ns = 0;
  std::int64_t message_bytes = 0;
};

Times times_of(std::int64_t pipelines) {
  Job job = two_sites(NetworkKind::flow);
  job.training.global_batch = pipelines;
  const Plan plan = across(job, pipelines);
  const auto timed = time_plan(job, *engine_of(job).value(), plan, false);
  EXPECT_TRUE(timed) << (timed ? "" : timed.error().message());
  if (!timed || !timed->network) return {};
  return {timed->network->closed_iteration_ns, timed->simulation.iteration_ns, timed->program.transfers[TransferId(0)].bytes};
}

// One pipeline has the line to itself, so the closed form applies. (The model shares no table between its stages. The
// table's gradient would compete with those of the activations on the line.)
TEST(FlowOnGroups, OnePipelineHasTheLineToItself) {
  const Times alone = times_of(1);
  EXPECT_GT(alone.closed_ns, 0);
  EXPECT_EQ(alone.flow_ns, alone.closed_ns);
}

// Both pipelines send their activation over the line at once, and then their gradient back. Each has half the rate,
// so either message takes twice the time of its bytes. 1024 · 4096 elements of two bytes are 8.4 MB, which take 67 ms
// at 1 Gb/s. The closed form gives each message the whole line.
TEST(FlowOnGroups, TwoPipelinesOverOneLineHaveHalfOfItEach) {
  const Times both = times_of(kPipelines);
  ASSERT_EQ(both.message_bytes, 1024 * 4096 * 2);
  const auto once_ns = static_cast<double>(both.message_bytes) / 0.125;
  EXPECT_NEAR(static_cast<double>(both.flow_ns - both.closed_ns), 2 * once_ns, 1000);
}

// The first pipeline trains 1 sample, the second 3, each as micro-batches of 1.
TEST(TimelineOfPipelines, CountsTheMicroBatchesOfTheLongest) {
  Job job = two_sites(NetworkKind::closed);
  Plan plan = across(job, 2);
  plan.pipelines[1].schedule.microbatches = 3;
  plan.pipelines[1].samples = 3;
  plan.training.global_batch = job.training.global_batch = 4;
  const auto found = simulate_with_timeline(job, plan, TimelineDetail::instructions);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->timeline.microbatches, 3);
  EXPECT_NE(to_trace(found->timeline, TraceOptions{}).find("\"microbatches_shown\":3"), std::string::npos);
}

}  // namespace
}  // namespace espalier::planner
