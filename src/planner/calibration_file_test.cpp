// SPDX-License-Identifier: Apache-2.0
#include "job/calibration_file.h"
#include "planner/own_confidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/document.h"
#include "plan/engine.h"

namespace espalier::planner::calibration_file_test {
namespace {

constexpr const char* kCalibration = R"(schema: espalier.calibration/1
device: h100-sxm-80gb
engine: megatron-core
coefficients: {compute: 1.25, launch: 2}
fabric:
  - {level: NVSwitch, where: node, efficiency: 0.5, latency_us: 3}
interval: {level: 0.8, low: 0.9, high: 1.1}
evidence: {runs: 6, devices_low: 8, devices_high: 16, median_error_before: 0.2, median_error_after: 0.05}
)";

std::string job_text(const std::string& more) {
  return "model: {model_type: llama, vocab_size: 32000, hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: 8, "
         "num_attention_heads: 32, max_position_embeddings: 4096}\n"
         "cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\n"
         "training: {sequence_length: 2048, global_batch: 16}\n" +
         more;
}

Result<Job> job_with(const std::string& more) { return load_job(job_text(more), "job.yaml", "/nonexistent", {}); }

std::string indented(const std::string& text) {
  std::string out = "calibration:\n  ";
  for (char c : text) out += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return out;
}

Strategy dp8() {
  Strategy s;
  s.dp = 8;
  return s;
}
const Schedule kTwoMicrobatches{ScheduleKind::one_f_one_b, 1, 1, 2, 1};

TEST(Calibration, IsReadAndNamedAfterItsFile) {
  const auto c = read_calibration(kCalibration, "dir/mine.yaml");
  ASSERT_TRUE(c.ok()) << c.error().message();
  EXPECT_EQ((*c)->name, "mine");
  EXPECT_EQ((*c)->engine, "megatron-core");
  EXPECT_DOUBLE_EQ((*c)->coefficients.compute, 1.25);
  EXPECT_EQ((*c)->coefficients.elementwise, find_engine("megatron-core")->coefficients.elementwise);
  ASSERT_EQ((*c)->fabric.size(), 1u);
  ASSERT_EQ((*c)->fabric[0].values.size(), 2u);
  EXPECT_DOUBLE_EQ((*c)->fabric[0].values[1].second, 3);
  const auto again = read_calibration((*c)->source, "plan", "mine");  // as a plan embeds it
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ((*again)->hash, (*c)->hash);
}

TEST(Calibration, RefusesWhatItDoesNotKnow) {
  const auto error = [](const std::string& text) { return read_calibration(text, "c.yaml").error(); };
  const std::string head = "schema: espalier.calibration/1\ndevice: h100-sxm-80gb\n";
  EXPECT_NE(error("schema: espalier.plan/1\ndevice: x\n").expected.find("espalier.calibration/1"), std::string::npos);
  EXPECT_NE(error(head + "engine: megatron-cor\n").hint.find("megatron-core"), std::string::npos);
  EXPECT_EQ(error(head + "engine: fsdp2\ncoefficients: {compute: 100}\n").where.substr(0, 8), "c.yaml:4");
  EXPECT_NE(error(head + "engine: fsdp2\ncoefficients: {computer: 1}\n").hint.find("compute"), std::string::npos);
  EXPECT_NE(error(head + "coefficients: {compute: 1}\n").message().find("engine"), std::string::npos);
  EXPECT_EQ(error(head + "fabric: [{level: x, efficiency: 2}]\n").kind, ErrorKind::bad_input);
}

TEST(Calibration, ChangesTheJobThatNamesIt) {
  const auto plain = job_with("engine: megatron-core\n");
  const auto own = job_with(indented(kCalibration));  // without an engine, the calibration's engine is used
  ASSERT_TRUE(plain.ok()) << plain.error().message();
  ASSERT_TRUE(own.ok()) << own.error().message();
  EXPECT_EQ(own->engine, "megatron-core");
  EXPECT_DOUBLE_EQ(own->cluster.groups.front().intra.front().efficiency, 0.5);
  EXPECT_DOUBLE_EQ(own->cluster.groups.front().intra.front().latency.count(), 3e-6);
  EXPECT_DOUBLE_EQ(own->engine_model->coefficients.launch, 2);
  const auto slow = estimate(*own, dp8(), kTwoMicrobatches), fast = estimate(*plain, dp8(), kTwoMicrobatches);
  ASSERT_TRUE(slow.ok()) << slow.error().message();
  EXPECT_GT(slow->prediction.iteration_ns, fast->prediction.iteration_ns);
  EXPECT_EQ(slow->prediction.peak_memory_bytes, fast->prediction.peak_memory_bytes);
  EXPECT_NE(slow->prediction.confidence.basis.find("6 of your runs"), std::string::npos);
}

TEST(Calibration, OfAnotherEngineOrDeviceIsRefused) {
  const auto engine = job_with("engine: nanotron\n" + indented(kCalibration));
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message().find("megatron-core"), std::string::npos);
  std::string other = kCalibration;
  other.replace(other.find("h100-sxm-80gb"), 13, "a100-sxm-80gb");
  const auto device = job_with(indented(other));
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message().find("a100-sxm-80gb"), std::string::npos);
}

TEST(Calibration, TravelsWithThePlan) {
  const auto job = job_with(indented(kCalibration));
  ASSERT_TRUE(job.ok()) << job.error().message();
  const auto result = estimate(*job, dp8(), kTwoMicrobatches);
  ASSERT_TRUE(result.ok()) << result.error().message();
  auto plan = plan_from_json(to_json(result->plan), "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(*plan, result->plan);
  const auto again = job_of_plan(*plan);
  ASSERT_TRUE(again.ok()) << again.error().message();
  const auto simulated = simulate(*again, *plan);
  ASSERT_TRUE(simulated.ok()) << simulated.error().message();
  EXPECT_EQ(simulated->prediction.iteration_ns, result->prediction.iteration_ns);
  EXPECT_EQ(simulated->prediction.confidence.basis, result->prediction.confidence.basis);
  EXPECT_EQ(simulated->plan, result->plan);
  plan->calibration_hash = "0000000000000000";
  EXPECT_FALSE(job_of_plan(*plan).ok());
}

// A file that does not state what was held out claims no error; one that does is trusted.
TEST(Calibration, TheBasisSaysWhatWasHeldOut) {
  const auto basis = [](const std::string& text) {
    return calibrated_confidence(**read_calibration(text, "mine.yaml"), 10, 16)->basis;
  };
  EXPECT_NE(basis(kCalibration).find("not cross-validated"), std::string::npos) << basis(kCalibration);
  std::string judged = kCalibration;
  judged.replace(judged.find("runs: 6"), 7, "runs: 6, cross_validation: leave one of 5 configurations out");
  EXPECT_NE(basis(judged).find("5.0 % held out (leave one of 5 configurations out), 20.0 % before"), std::string::npos)
      << basis(judged);
}

TEST(Calibration, ACoefficientFarFromTheShippedOneIsAWarning) {
  std::string far = kCalibration;
  far.replace(far.find("compute: 1.25"), 13, "compute: 1.6");
  const auto read = read_calibration(far, "mine.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_FALSE((*read)->warnings.empty());
  EXPECT_NE((*read)->warnings.front().find("compute 1.6"), std::string::npos) << (*read)->warnings.front();
  EXPECT_NE(calibrated_confidence(**read, 10, 16)->basis.find("warning: compute"), std::string::npos);
}

TEST(Calibration, IntervalWidensAwayFromTheRuns) {
  const auto c = read_calibration(kCalibration, "mine.yaml");
  ASSERT_TRUE(c.ok());
  const auto inside = calibrated_confidence(**c, 10, 16);
  EXPECT_DOUBLE_EQ(inside->low_s, 9);
  EXPECT_DOUBLE_EQ(inside->high_s, 11);
  const auto outside = calibrated_confidence(**c, 10, 64);  // two doublings give the power √2
  EXPECT_NEAR(outside->high_s, 10 * std::pow(1.1, std::sqrt(2.0)), 1e-9);
  EXPECT_NE(outside->basis.find("outside"), std::string::npos);
}

}  // namespace
}  // namespace espalier::planner::calibration_file_test
