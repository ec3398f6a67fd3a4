// SPDX-License-Identifier: Apache-2.0
// Tests logs made from a prediction: the comparison must find each change made to them.
#include "espalier/log_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "base/format.h"
#include "data/source_dir.h"

namespace espalier::calibrate::log_comparison_test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Trained {
  Trained() {
    const std::string root = ESPALIER_SOURCE_DIR;
    job = *load_job("model: " + root +
                        "/models/llama-2-7b/config.json\ncluster: {nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}\n" +
                        "engine: megatron-core\ntraining: {sequence_length: 4096, global_batch: 128, precision: bf16}\n",
                    "test", ".", {});
    Strategy s;
    s.tp = 2;
    s.dp = 4;
    s.zero = ZeroStage::optimizer;
    s.shard = 4;
    s.sp = SequenceParallel::megatron;
    const auto result = estimate(job, s, {ScheduleKind::one_f_one_b, 2, 1, 32, 1});
    EXPECT_TRUE(result) << (result ? "" : result.error().message());
    plan = result->plan;
    predicted_s = static_cast<double>(result->prediction.iteration_ns) * 1e-9;
  }
  /// Returns 60 steps of `seconds_of(i)`, preceded by `more`.
  [[nodiscard]] NamedText log(const std::function<double(int)>& seconds_of, const std::string& more = "",
                              const std::string& behind = "") const {
    std::string text = more;
    for (int i = 1; i <= 60; ++i)
      text += cat(" iteration ", i, "/ 100 | elapsed time per iteration (ms): ", base::fixed(seconds_of(i) * 1e3, 1),
                  " | global batch size: 128 | lm loss: 3 |\n");
    return {"run.log", text + behind};
  }
  [[nodiscard]] std::string findings(const NamedText& text) const {
    const auto c = compare_log(job, plan, text);
    EXPECT_TRUE(c) << (c ? "" : c.error().message());
    std::string out;
    for (std::size_t k = 0; c && k < c->findings.size(); ++k) out += c->findings[k] + "\n";
    return out;
  }
  Job job;
  Plan plan;
  double predicted_s = 0;
};

std::string block(const std::string& name, const std::string& value) {
  return cat("--- arguments ---\n  ", name, " ........ ", value, "\n  lr ....... 0.1\n--- end of arguments ---\n");
}

TEST(LogComparison, AStepAsPredictedIsNormalAndAllFiguresAreThePlans) {
  const Trained t;
  const auto c = compare_log(t.job, t.plan, t.log([&t](int) { return t.predicted_s; }, block("num_layers", "32")));
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(c->arguments, 1);
  EXPECT_EQ(c->steps + c->warm_up, 60);
  EXPECT_NEAR(c->measured_s, t.predicted_s, 1e-4);
  EXPECT_NEAR(c->mfu, c->predicted.mfu, 1e-4);
  EXPECT_THAT(c->findings.front(), HasSubstr("Normal"));
  EXPECT_FALSE(c->published.empty());
}

TEST(LogComparison, ASlowStepIsMeasuredAgainstEveryPart) {
  const Trained t;
  const auto c = compare_log(t.job, t.plan, t.log([&t](int) { return 3 * t.predicted_s; }));
  ASSERT_TRUE(c);
  EXPECT_THAT(c->findings[0], HasSubstr("Slower than the 80 % interval"));
  EXPECT_THAT(c->findings[0], HasSubstr("200.0 %"));
  const double factor = 1 + 2 * t.predicted_s / (static_cast<double>(c->predicted.breakdown.compute_ns) * 1e-9);
  EXPECT_THAT(c->findings[1], HasSubstr(cat("compute ", base::fixed(factor, 2), " times")));
  EXPECT_NEAR(c->tokens_per_s_per_device, c->predicted.tokens_per_s_per_device / 3, 1);
}

TEST(LogComparison, UnsteadyStepsDriftsAndMemoryAreSaid) {
  const Trained t;
  EXPECT_THAT(t.findings(t.log([&t](int i) { return t.predicted_s * (i % 2 == 0 ? 1.0 : 1.2); })), HasSubstr("Steps vary"));
  EXPECT_THAT(t.findings(t.log([&t](int i) { return t.predicted_s * (1 + 0.003 * i); })), HasSubstr("Steps became"));
  const std::string calm = t.findings(t.log([&t](int) { return t.predicted_s; }));
  EXPECT_THAT(calm, Not(HasSubstr("Steps")));
  EXPECT_THAT(calm, Not(HasSubstr("memory")));
  const std::string full =
      "[Rank 0] (after 2 iterations) memory (MB) | allocated: 20000 | max allocated: 80000.0 | reserved: 80000\n";
  EXPECT_THAT(t.findings(t.log([&t](int) { return t.predicted_s; }, "", full)), HasSubstr("of the device"));
}

TEST(LogComparison, AnotherConfigurationIsRefusedWithEveryDifference) {
  const Trained t;
  const auto refusal = [&t](const std::string& name, const std::string& value) {
    const auto c = compare_log(t.job, t.plan, t.log([&t](int) { return t.predicted_s; }, block(name, value)));
    return c ? "" : c.error().message();
  };
  for (const auto& [name, good, bad] :
       std::vector<std::tuple<const char*, const char*, const char*>>{{"tensor_model_parallel_size", "2", "4"},
                                                                      {"pipeline_model_parallel_size", "2", "1"},
                                                                      {"micro_batch_size", "1", "2"},
                                                                      {"global_batch_size", "128", "64"},
                                                                      {"seq_length", "4096", "8192"},
                                                                      {"hidden_size", "4096", "5120"},
                                                                      {"num_attention_heads", "32", "40"},
                                                                      {"sequence_parallel", "True", "False"},
                                                                      {"world_size", "16", "8"}}) {
    EXPECT_EQ(refusal(name, good), "") << name;
    EXPECT_THAT(refusal(name, bad), HasSubstr(cat(name, " ", bad, " (line 2)")));
  }
  EXPECT_EQ(refusal("micro_batch_size", "None"), "");
}

TEST(Published, RunsAreOfTheSameFamilyAndNearInSize) {
  const Trained t;
  ASSERT_GT(published_runs().size(), 250u);
  const std::vector<PublishedRun> like = published_like(t.job, 6);
  ASSERT_EQ(like.size(), 6u);
  const auto own = static_cast<double>(active_parameter_count(t.job.model));
  for (const PublishedRun& run : like) {
    EXPECT_EQ(run.device.substr(0, 4), "A100");
    EXPECT_EQ(run.experts, 0);
    EXPECT_LT(std::abs(std::log(run.active_parameters / own)), std::log(2.5));
    EXPECT_FALSE(run.source.empty());
    EXPECT_LT(run.tflops_per_device(), 312);
  }
}

// No line of the table is faster than its device.
TEST(Published, NoRunExceedsThePeakOfItsDevice) {
  for (const PublishedRun& run : published_runs()) {
    const bool eight = run.precision.find("8") != std::string::npos;
    const double peak = run.device.rfind("A100", 0) == 0   ? 312
                        : run.device.rfind("V100", 0) == 0 ? 125
                        : run.device.rfind("H100", 0) == 0 ? (eight ? 1979 : 989)
                                                           : 5000;
    EXPECT_LT(run.tflops_per_device(), peak) << run.record;
  }
}

}  // namespace
}  // namespace espalier::calibrate::log_comparison_test
