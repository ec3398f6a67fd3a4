// SPDX-License-Identifier: Apache-2.0
// Tests that jobs which ran slower than predicted in published runs have intervals that reach these runs. All other
// jobs keep their intervals.
#include "planner/interval_exceptions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/estimate.h"

namespace espalier::planner {
namespace {

using testing::HasSubstr;

constexpr const char* kRows = R"(
schema: espalier.interval-exceptions/1
exceptions:
  - {engine: a, kind: adapters under ZeRO-3, adapters: true, zero: 3, high: 6.5, source: x}
  - {engine: a, kind: mixtures, experts: true, device_runs: false, high: 2.0, source: y}
)";

IntervalFacts facts(bool adapters, bool experts, bool device_runs, std::vector<int> zero) {
  return {"a", adapters, experts, device_runs, std::move(zero)};
}

TEST(IntervalExceptions, HoldWhereEveryConditionDoes) {
  const auto rows = read_interval_exceptions(kRows, "test");
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  const PredictionInterval usual{0.8, 1.25, 3, "runs"};
  const auto high = [&](const IntervalFacts& f) { return widened(usual, f, *rows).high; };
  EXPECT_EQ(high(facts(true, false, true, {0, 3})), 6.5);
  EXPECT_EQ(high(facts(true, false, true, {2})), 1.25);
  EXPECT_EQ(high(facts(false, false, true, {3})), 1.25);
  EXPECT_EQ(high(facts(false, true, false, {1})), 2.0);
  EXPECT_EQ(high(facts(false, true, true, {1})), 1.25);
  IntervalFacts other = facts(true, false, true, {3});
  other.engine = "b";
  EXPECT_EQ(high(other), 1.25);
}

TEST(IntervalExceptions, TheLowEndStaysAndTheBasisNamesTheKind) {
  const auto rows = read_interval_exceptions(kRows, "test");
  ASSERT_TRUE(rows.ok());
  const PredictionInterval wide = widened({0.8, 1.25, 3, "runs"}, facts(true, false, true, {3}), *rows);
  EXPECT_EQ(wide.low, 0.8);
  EXPECT_THAT(wide.basis, HasSubstr("runs; wide: adapters under ZeRO-3"));
  EXPECT_EQ(widened({0.8, 9.0, 3, "runs"}, facts(true, false, true, {3}), *rows).basis, "runs") << "wide enough as it is";
}

TEST(IntervalExceptions, AnUnknownKeyIsAnError) {
  EXPECT_FALSE(
      read_interval_exceptions("schema: x\nexceptions: [{engine: a, kind: k, high: 2, source: s, zeros: 3}]", "test").ok());
  EXPECT_FALSE(read_interval_exceptions("schema: x\nexceptions: [{engine: a, kind: k, high: 0.5, source: s}]", "test").ok());
}

// Qwen2-72B with LoRA under DeepSpeed's ZeRO-3 on 8 H100 took 48 s a step in a published run
// (data/calibration/interval_exceptions.yaml). ZeRO-2 keeps its interval.
TEST(IntervalExceptions, APredictionReachesThePublishedRun) {
  const auto predicted = [](ZeroStage zero) {
    auto job = load_job(R"(
model: {model_type: qwen2, hidden_size: 8192, intermediate_size: 29568, num_hidden_layers: 80, num_attention_heads: 64, num_key_value_heads: 8, vocab_size: 152064, tie_word_embeddings: false}
cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}
training: {sequence_length: 512, global_batch: 64, precision: bf16, adapter: {kind: lora, rank: 64, alpha: 16, targets: all-linear}}
engine: deepspeed
)",
                        "test", ".", {});
    EXPECT_TRUE(job.ok()) << (job ? "" : job.error().message());
    Strategy s;
    s.dp = 8;
    s.zero = zero;
    s.shard = 8;
    s.recompute.kind = RecomputeKind::full;
    s.recompute.layers = 80;
    Schedule schedule;
    schedule.microbatches = 8;
    auto out = predict(*job, s, schedule);
    EXPECT_TRUE(out.ok()) << (out ? "" : out.error().message());
    return out ? *out : Prediction{};
  };
  const Prediction zero3 = predicted(ZeroStage::parameters), zero2 = predicted(ZeroStage::gradients);
  EXPECT_LT(zero3.confidence.low_s, 48.0);
  EXPECT_GT(zero3.confidence.high_s, 48.0);
  EXPECT_THAT(zero3.confidence.basis, HasSubstr("adapters under ZeRO-3"));
  EXPECT_LT(zero2.confidence.high_s, 2.0 * static_cast<double>(zero2.iteration_ns) * 1e-9);
}

}  // namespace
}  // namespace espalier::planner
