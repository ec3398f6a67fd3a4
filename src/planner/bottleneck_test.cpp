// SPDX-License-Identifier: Apache-2.0
// Tests what bounds a step: the busiest stage, not the one that finishes last. Parts of the end of a step have
// their true names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/source_dir.h"
#include "plan/engine.h"
#include "planner/alternatives.h"
#include "planner/pipeline_bottleneck.h"
#include "planner/prediction.h"
#include "planner/time_parts.h"
#include "sim/simulator.h"

namespace espalier::planner {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

/// Returns three stages of a step of 10 s. Stage 2 finishes last: it computes 2 s and waits 8 s. Stage 0 computes 9 s.
Prediction three_stages() {
  Prediction p;
  p.iteration_ns = 10 * kSecond;
  p.breakdown = {2 * kSecond, 0, 8 * kSecond, 0, 0};
  p.last_stage = 2;
  p.bottleneck.stage = 0;
  p.bottleneck.busy = 0.94;
  p.bottleneck.breakdown = {9 * kSecond, 0, 6 * kSecond / 10, 4 * kSecond / 10, 0};
  p.bottleneck.busy_per_stage = {0.94, 0.93, 0.2};
  return p;
}

TEST(Bottleneck, IsTheBusiestStageNotTheLastToFinish) {
  const std::string sentence = pipeline_bottleneck(three_stages());
  EXPECT_THAT(sentence, HasSubstr("bound by stage 0, busy 94.0 %"));
  EXPECT_THAT(sentence, HasSubstr("compute (90.0 %)"));
  EXPECT_THAT(sentence, HasSubstr("2 of 3 stages"));
  EXPECT_THAT(sentence, Not(HasSubstr("bubble")));
}

// If even the busiest stage waits most of the time, the bubble is the bottleneck.
TEST(Bottleneck, IsTheBubbleWhereAllIdle) {
  Prediction p = three_stages();
  p.bottleneck.busy = 0.3;
  p.bottleneck.breakdown = {3 * kSecond, 0, 7 * kSecond, 0, 0};
  p.bottleneck.busy_per_stage = {0.3, 0.3, 0.3};
  EXPECT_THAT(pipeline_bottleneck(p), HasSubstr("bound by pipeline bubble (70.0 %)"));
}

// With one rank per device, ranks and stages have different numbers: ranks 2 and 3 of 4 belong to stage 1 of 2. Stage
// 1 gets an extra 8 GiB, so that rank 2 is the first of the fullest. It holds what stage 1 holds (there is no stage
// 2).
TEST(Memory, OfTheFullestRankIsThatOfItsStage) {
  const std::string root = ESPALIER_SOURCE_DIR;
  const auto job = load_job("model: " + root +
                                "/models/gpt2/config.json\ncluster: {nodes: 1, devices_per_node: 4, device: h100-sxm-80gb}\n"
                                "training: {sequence_length: 1024, global_batch: 32}\n",
                            "test", ".", {});
  ASSERT_TRUE(job.ok());
  Strategy s;
  s.dp = 2;
  const Schedule c{ScheduleKind::one_f_one_b, 2, 1, 16, 1};
  const EngineModel& engine = **engine_of(*job);
  const Plan plan = document_of(*job, engine, s, c);
  Timed timed = *time_plan(*job, engine, plan, false);
  timed.costs.stages[StageId(1)].memory.parameters += std::int64_t{1} << 33;  // an extra 8 GiB on stage 1
  timed.program = lower(plan, job->model, false);
  timed.simulation = *sim::Simulator().run(timed.program, timed.costs);
  ASSERT_EQ(timed.simulation.ranks.size(), 4U);
  const Prediction p = prediction_of(*job, engine, timed);
  EXPECT_EQ(p.peak_memory_bytes, timed.simulation.ranks[2].memory.bytes);
  EXPECT_EQ(p.memory.parameters, timed.costs.stages[StageId(1)].memory.parameters);
}

// One micro-batch goes through two stages of unequal work on a real model: the shares are those of each
// stage's own timeline.
TEST(Bottleneck, OfASimulatedPlan) {
  const std::string root = ESPALIER_SOURCE_DIR;
  const auto job = load_job("model: " + root +
                                "/models/gpt2/config.json\ncluster: {nodes: 1, devices_per_node: 4, device: h100-sxm-80gb}\n"
                                "training: {sequence_length: 1024, global_batch: 32}\n",
                            "test", ".", {});
  ASSERT_TRUE(job.ok());
  Strategy s;
  Schedule c;
  c.stages = 4;
  c.micro_batch = 1;
  c.microbatches = 32;
  const auto r = estimate(*job, s, c);
  ASSERT_TRUE(r.ok()) << r.error().message();
  const Bottleneck& b = r->prediction.bottleneck;
  ASSERT_EQ(b.busy_per_stage.size(), 4u);
  EXPECT_EQ(b.busy, *std::max_element(b.busy_per_stage.begin(), b.busy_per_stage.end()));
  EXPECT_EQ(b.busy_per_stage[static_cast<std::size_t>(b.stage)], b.busy);
  EXPECT_EQ(b.breakdown.total_ns(), r->prediction.iteration_ns);
  EXPECT_THAT(r->reasons.front(), HasSubstr("stage " + std::to_string(b.stage)));
  EXPECT_THAT(to_json(*r), HasSubstr("\"bottleneck\": {"));
}

// The update and the host's work are two rows; their sum is the breakdown's optimizer.
TEST(TimeParts, HostWorkIsNotTheUpdate) {
  Breakdown b{50, 20, 10, 15, 5};
  b.step_host_ns = 9;
  const auto parts = time_parts(b);
  std::int64_t sum = 0;
  for (const TimePart& part : parts) sum += part.ns;
  EXPECT_EQ(sum, 100);
  EXPECT_EQ(parts[static_cast<std::size_t>(TimeKind::update)].ns, 6);
  EXPECT_EQ(parts[static_cast<std::size_t>(TimeKind::host)].ns, 9);
  EXPECT_STREQ(parts[static_cast<std::size_t>(TimeKind::host)].name, "host between steps");
  EXPECT_STREQ(time_parts(b, HostWork::update)[static_cast<std::size_t>(TimeKind::host)].name, "update on the host");
}

// Losses come first, then gains: +0.21 s of communication, −0.05 s of bubble; 1 ms of compute is omitted.
TEST(Differences, NameLossesAndGains) {
  Prediction best = three_stages(), other = three_stages();
  other.bottleneck.breakdown.exposed_communication_ns += kSecond * 21 / 100;
  other.bottleneck.breakdown.bubble_ns -= kSecond * 5 / 100;
  other.bottleneck.breakdown.compute_ns += kSecond / 1000;
  EXPECT_EQ(differences(other, best), "exposed communication +0.210 s, pipeline bubble -0.050 s");
}

}  // namespace
}  // namespace espalier::planner
