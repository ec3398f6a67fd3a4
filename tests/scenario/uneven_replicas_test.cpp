// SPDX-License-Identifier: Apache-2.0
// Tests replicas of unequal samples and states from end to end: simulated, checked, and found broken where they are.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "check/check.h"
#include "espalier/check.h"
#include "espalier/job.h"
#include "espalier/planner.h"
#include "plan/program.h"
#include "planner/plan_claims.h"

namespace espalier {
namespace {

Job job_on(const std::string& cluster) {
  return load_job(
             R"({model: {model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_attention_heads: 8, num_key_value_heads: 8,
    num_hidden_layers: 6, vocab_size: 8192, max_position_embeddings: 2048}, cluster: )" +
                 cluster + ", training: {sequence_length: 512, global_batch: 24, precision: fp16}}",
             "test", "", {})
      .value();
}

constexpr const char* kMixed =
    "{groups: [{name: new, nodes: 1, devices_per_node: 2, device: a100-sxm-80gb}, {name: old, nodes: 1, devices_per_node: 2, "
    "device: v100-sxm-16gb}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}";

Plan unequal(const Job& job, ZeroStage zero, std::vector<std::int64_t> samples, std::vector<std::int64_t> states) {
  Strategy s;
  s.dp = 4;
  s.zero = zero;
  s.shard = shards_optimizer(zero) ? 4 : 1;
  Schedule schedule;
  schedule.micro_batch = 3;
  schedule.microbatches = 2;
  Plan plan = estimate(job, s, schedule).value().plan;
  plan.only_pipeline().stages.front().samples_per_replica = std::move(samples);
  plan.only_pipeline().stages.front().state_shares = std::move(states);
  return plan;
}

TEST(UnevenReplicas, AreSimulatedAndChecked) {
  const Job job = job_on(kMixed);
  for (const ZeroStage zero : {ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
    const Plan plan = unequal(job, zero, {4, 4, 2, 2}, {5, 5, 3, 3}), even = unequal(job, zero, {}, {});
    const auto result = simulate(job, plan), equal = simulate(job, even);
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_LT(result->prediction.iteration_ns, equal->prediction.iteration_ns);  // the V100s had most to do
    const auto report = report::check_plan(job, plan, {});
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_TRUE(report->ok()) << report::to_text(*report, plan);
  }
}

/// Derives every figure of every kind of rank again.
TEST(UnevenReplicas, BrokenClaimsAreFound) {
  const Job job = job_on(kMixed);
  const Plan plan = unequal(job, ZeroStage::parameters, {4, 4, 2, 2}, {5, 5, 3, 3});
  const auto claims = planner::claims_of(job, plan);
  ASSERT_TRUE(claims.ok()) << claims.error().message();
  ASSERT_EQ(claims->kinds.size(), 2U);
  const Program program = lower(plan, job.model, true);
  const auto findings = [&](const std::function<void(check::Claims&)>& change) {
    check::Claims changed = *claims;
    change(changed);
    std::string failed;
    for (const Finding& f : check::check_plan(plan, job.model, job.cluster, program, &changed).findings)
      if (!f.ok) failed += f.name + " ";
    return failed;
  };
  EXPECT_EQ(findings([](check::Claims&) {}), "");
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(findings([k](check::Claims& c) { c.kinds[k].static_bytes_per_stage[0] += 4096; }), "static-memory ");
    EXPECT_EQ(findings([k](check::Claims& c) { c.kinds[k].saved_bytes_per_chunk[0] *= 2; }), "saved-activations ");
    EXPECT_EQ(findings([k](check::Claims& c) { c.kinds[k].gradient_bytes_per_stage[0] /= 2; }), "gradient-messages ");
    EXPECT_NE(findings([k](check::Claims& c) { c.kinds[k].peak_bytes_per_stage[0] *= 2; }).find("peak-memory"),
              std::string::npos);
    EXPECT_EQ(findings([k](check::Claims& c) { c.kinds[k].peak_bytes_per_stage[0] /= 2; }), "peak-memory ");
  }
  EXPECT_EQ(findings([](check::Claims& c) { std::swap(c.kinds[0].static_bytes_per_stage, c.kinds[1].static_bytes_per_stage); }),
            "static-memory ");
  EXPECT_EQ(findings([](check::Claims& c) { std::swap(c.kinds[0].saved_bytes_per_chunk, c.kinds[1].saved_bytes_per_chunk); }),
            "saved-activations ");
  EXPECT_EQ(findings([](check::Claims& c) { c.kinds.pop_back(); }), "claims-shape ");
  EXPECT_EQ(findings([](check::Claims& c) { c.iteration_ns /= 100; }), "time-bounds ");
}

/// Tests shares that do not belong to the stage.
TEST(UnevenReplicas, BrokenSharesAreFound) {
  const Job job = job_on(kMixed);
  const Plan sound = unequal(job, ZeroStage::optimizer, {4, 4, 2, 2}, {5, 5, 3, 3});
  const Program program = lower(sound, job.model, true);
  const auto broken = [&](const std::function<void(Stage&)>& change) {
    Plan plan = sound;
    change(plan.only_pipeline().stages.front());
    for (const Finding& f : check::check_plan(plan, job.model, job.cluster, program, nullptr).findings)
      if (!f.ok) return f.name;
    return std::string();
  };
  EXPECT_EQ(broken([](Stage&) {}), "");
  EXPECT_EQ(broken([](Stage& s) { s.samples_per_replica = {4, 4, 2, 1}; }), "replica-shares");
  EXPECT_EQ(broken([](Stage& s) { s.samples_per_replica = {4, 4, 4}; }), "replica-shares");
  EXPECT_EQ(broken([](Stage& s) { s.samples_per_replica = {4, 4, 4, 0}; }), "replica-shares");
  EXPECT_EQ(broken([](Stage& s) { s.state_shares = {5, 5, 3}; }), "replica-shares");
  EXPECT_EQ(broken([](Stage& s) { s.state_shares = {5, 5, 3, 0}; }), "replica-shares");
  EXPECT_NE(broken([](Stage& s) { s.devices = {{0, 3, 1}}; }), "");
}

/// Tests stages with a gap: the slow node between them belongs to no stage.
TEST(UnevenReplicas, StagesThroughAGapAreChecked) {
  const Job job = job_on("{nodes: 3, devices_per_node: 2, device: a100-sxm-80gb, speed: {\"node:1\": 0.000001}}");
  const auto result = plan(job, {});
  ASSERT_TRUE(result.ok()) << result.error().message();
  for (const Stage& stage : result->plan.only_pipeline().stages)
    for (const DeviceRange& range : stage.devices)
      for (std::int64_t n = 0; n < range.count; ++n) EXPECT_NE(job.cluster.node_of(range.first + n * range.stride), 1);
  const auto report = report::check_plan(job, result->plan, {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_TRUE(report->ok()) << report::to_text(*report, result->plan);
}

}  // namespace
}  // namespace espalier
