// SPDX-License-Identifier: Apache-2.0
// Tests slow-downs of steps with invented times: two data-parallel ranks, one more layer than a bucket.
#include "calibrate/overlap_slowdown.h"

#include <gtest/gtest.h>

#include "espalier/configuration.h"
#include "espalier/planner.h"

namespace espalier::calibrate::overlap_slowdown_test {
namespace {

Job two_layers() {
  const auto job = load_job(
      "model: {model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, "
      "intermediate_size: 128, vocab_size: 128, tie_word_embeddings: false}\n"
      "cluster: {nodes: 1, devices_per_node: 2, device: t4}\n"
      "engine: espalier\ntraining: {sequence_length: 32, global_batch: 8, precision: fp32, optimizer: adam}\n",
      "job.yaml", ".", {});
  EXPECT_TRUE(job) << job.error().message();
  return *job;
}

Plan plan_of(const Job& job, bool beside) {
  Strategy strategy;
  strategy.dp = 2;
  strategy.overlap.grad_reduce = beside;
  Schedule schedule;
  schedule.micro_batch = 4;
  return profiled_plan(job, strategy, schedule);
}

/// Returns a step in which every computation takes `compute_ns` and begins when the one before it ends. A reduction
/// takes `reduce_ns`. It begins at the end of the computation or the reduction before it in the list.
MeasuredStep step_of(const Plan& plan, const Program& program, std::int64_t compute_ns, std::int64_t reduce_ns) {
  MeasuredStep step;
  step.plan = content_hash(plan);
  for (const RankClass& rank : program.ranks) {
    MeasuredRank measured;
    measured.device = rank.device();
    std::int64_t compute_end = 0, data_end = 0;
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const bool data = program.instructions[static_cast<std::size_t>(i)].stream == Stream::data;
      const std::int64_t start = data ? std::max(data_end, compute_end) : compute_end;
      const std::int64_t length = data ? reduce_ns : compute_ns;
      (data ? data_end : compute_end) = start + length;
      measured.instructions.push_back({start, start + length, data ? 0 : length, 0, 0});
    }
    step.ranks.push_back(measured);
  }
  return step;
}

// One step has 10 s of compute and the other 12, of which 6 overlap with a collective. 2 of 6 seconds are lost, so
// κ_w = 6/(6 − 2). The collectives take 8 s instead of 5, so κ_c = 6/(6 − 3).
TEST(OverlapSlowdown, WhatIsLostOfTheTimeBesideEachOther) {
  const auto k = overlap_slowdown({{12, 8, 6}}, {{10, 5, 0}});
  ASSERT_TRUE(k.has_value());
  EXPECT_DOUBLE_EQ(k->compute_slowdown, 1.5);
  EXPECT_DOUBLE_EQ(k->communication_slowdown, 2.0);
}

TEST(OverlapSlowdown, StepsAreAddedUp) {
  EXPECT_EQ(overlap_slowdown({{5, 3, 2}, {7, 5, 4}}, {{4, 2, 0}, {6, 3, 0}}), overlap_slowdown({{12, 8, 6}}, {{10, 5, 0}}));
}

// Noise may make the step with overlap the faster one, and a stalled collective is no slow-down of compute.
TEST(OverlapSlowdown, StaysBetweenOneAndTen) {
  const auto k = overlap_slowdown({{9, 20, 6}}, {{10, 5, 0}});
  ASSERT_TRUE(k.has_value());
  EXPECT_EQ(k->compute_slowdown, 1);
  EXPECT_EQ(k->communication_slowdown, 10);
}

TEST(OverlapSlowdown, NothingIsSaidWhereNothingRanBesideEachOther) {
  EXPECT_FALSE(overlap_slowdown({{12, 8, 0.5}}, {{10, 5, 0}}));
  EXPECT_FALSE(overlap_slowdown({}, {}));
  EXPECT_FALSE(overlap_slowdown({{12, 8, 6}}, {}));
}

// A list of one micro-batch with overlap has a forward, the backward in buckets with a reduction behind each, and the
// update. All but the last reduction overlap with the next bucket, for 3 ns of 4.
TEST(OverlapSlowdown, SumsOfAMeasuredStep) {
  const Job job = two_layers();
  const Plan plan = plan_of(job, true);
  const Program program = lower(plan, job.model, false);
  const MeasuredStep step = step_of(plan, program, 4, 3);
  std::int64_t compute = 0, reductions = 0;
  for (const Instruction& i : program.instructions) {
    compute += i.stream == Stream::compute && i.kind != InstructionKind::optimizer ? 1 : 0;
    reductions += i.stream == Stream::data ? 1 : 0;
  }
  ASSERT_GT(reductions, 2);
  const auto sums = overlap_sums({&program, &step});
  ASSERT_TRUE(sums.ok()) << sums.error().message();
  EXPECT_NEAR(sums->compute, 4e-9 * static_cast<double>(compute), 1e-15);
  EXPECT_NEAR(sums->collectives, 3e-9 * static_cast<double>(reductions), 1e-15);
  EXPECT_NEAR(sums->both, 3e-9 * static_cast<double>(reductions - 2),
              1e-15);  // two ranks; the last reduction of each has no overlap
}

TEST(OverlapSlowdown, IsWrittenIntoTheProfileAndReadFromIt) {
  const Job job = two_layers();
  std::vector<OverlapRun> runs;
  for (const bool beside : {true, false}) {
    const Plan plan = plan_of(job, beside);
    runs.push_back({plan, {"step.json", to_json(step_of(plan, lower(plan, job.model, false), 4, 3))}});
  }
  const auto found = measured_overlap(job, runs);
  ASSERT_TRUE(found.ok()) << found.error().message();
  ASSERT_TRUE(found->has_value());
  const auto read = read_calibration(
      "schema: espalier.calibration/1\ndevice: t4\nengine: espalier\noverlap: {compute_slowdown: 1.5, communication_slowdown: "
      "2.5}\n",
      "p.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  Job priced = job;
  ASSERT_TRUE(use_calibration(priced, *read).ok());
  const DeviceEfficiency& device = priced.cluster.groups.front().device.efficiency;
  EXPECT_EQ(device.overlap_compute_slowdown, 1.5);
  EXPECT_EQ(device.overlap_communication_slowdown, 2.5);
  EXPECT_TRUE(device.measured_overlap);
}

TEST(OverlapSlowdown, AStepOfAnotherPlanIsRefused) {
  const Job job = two_layers();
  const Plan beside = plan_of(job, true);
  const std::string text = to_json(step_of(beside, lower(beside, job.model, false), 4, 3));
  const auto found = measured_overlap(job, {{plan_of(job, false), {"step.json", text}}});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().where, "timeline");
}

}  // namespace
}  // namespace espalier::calibrate::overlap_slowdown_test
