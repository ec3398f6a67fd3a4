// SPDX-License-Identifier: Apache-2.0
// Tests the price of a step: two nodes at 2 USD per device and hour for T seconds cost 16 · 2 · T / 3600 USD. A node
// without a price gives no figure.
#include "planner/expense.h"

#include <gtest/gtest.h>

#include "espalier/job.h"
#include "plan/engine.h"

namespace espalier::planner::expense_test {
namespace {

constexpr const char* kModel =
    R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16,
  "num_key_value_heads": 8, "num_hidden_layers": 8, "vocab_size": 32000, "max_position_embeddings": 2048})";

Job job_on(const std::string& cluster) {
  Job job;
  job.model = load_model(kModel, "test").value();
  job.cluster = load_cluster(cluster, "test").value();
  job.training.sequence.main = 1024;
  job.training.global_batch = 32;
  job.engine = "generic";
  return job;
}

/// Builds two stages of eight devices each, TP2 DP4, four micro-batches of two samples per replica; layers 0 … 4 and
/// 5 … 9.
Plan two_stages(const Job& job) {
  Plan plan;
  plan.training = job.training;
  plan.engine = job.engine;
  Pipeline& p = plan.only_pipeline();
  p.schedule.stages = 2;
  p.schedule.micro_batch = 2;
  p.schedule.microbatches = 4;
  p.samples = 32;
  Strategy s;
  s.tp = 2;
  s.dp = 4;
  for (std::int32_t i = 0; i < 2; ++i) {
    Stage& stage = p.stages.emplace_back();
    stage.devices = {{i * 8, 8, 1}};
    stage.chunks.resize(1);
    stage.chunks[0].ranges = {{i * 5, i * 5 + 4, s}};
  }
  return plan;
}

std::optional<Expense> expense(const Job& job) {
  const EngineModel& engine = *engine_of(job).value();
  const auto timed = time_plan(job, engine, two_stages(job), false);
  EXPECT_TRUE(timed.ok()) << (timed.ok() ? "" : timed.error().message());
  if (!timed) return std::nullopt;
  auto out = expense_of(job, engine, *timed, 32.0 * 1024.0);
  if (out) {
    EXPECT_NEAR(out->per_step,
                out->per_hour * static_cast<double>(timed->simulation.iteration_ns) * 1e-9 / 3600.0 + out->egress_per_step,
                1e-12);
    EXPECT_DOUBLE_EQ(out->per_token, out->per_step / 32768.0);
  }
  return out;
}

TEST(Expense, DevicesForTheTimeOfAStep) {
  const auto cost = expense(job_on("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb, price_per_device_hour: 2}"));
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->devices, 16);
  EXPECT_DOUBLE_EQ(cost->per_hour, 32.0);
  EXPECT_EQ(cost->egress_per_step, 0.0);
  EXPECT_EQ(cost->currency, "USD");
}

TEST(Expense, NothingWithoutEveryPrice) {
  EXPECT_FALSE(expense(job_on("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}")));
  EXPECT_FALSE(
      expense(job_on("{groups: [{nodes: 1, devices_per_node: 8, device: a100-sxm-80gb, price_per_device_hour: 2}, {nodes: 1, "
                     "devices_per_node: 8, device: a100-sxm-40gb}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}")));
}

/// Each of 8 ranks sends 2 samples × 1,024 tokens × 1,024 features × 2 bytes in 4 micro-batches: 4 MiB · 32 =
/// 134,217,728 bytes each way. They cost 0.02 a gigabyte forward and 0.09 back. Only the nodes that the plan uses are
/// paid for, so the third node of the first group is not.
TEST(Expense, BytesBetweenSites) {
  const Job job = job_on(
      "{groups: [{name: a, nodes: 1, devices_per_node: 8, device: a100-sxm-80gb, site: east, price_per_device_hour: 3}, {name: "
      "b, "
      "nodes: 2, devices_per_node: 8, device: a100-sxm-80gb, site: west, price_per_device_hour: 1}], links: [{from: east, to: "
      "west, bandwidth: 100Gb/s, latency: 1ms, both: true}], egress_price_per_GB: {east-west: 0.02, west-east: 0.09}}");
  const auto cost = expense(job);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->devices, 16);
  EXPECT_DOUBLE_EQ(cost->per_hour, 8 * 3.0 + 8 * 1.0);
  EXPECT_NEAR(cost->egress_per_step, 134217728e-9 * (0.02 + 0.09), 1e-12);
}

}  // namespace
}  // namespace espalier::planner::expense_test
