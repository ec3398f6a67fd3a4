// SPDX-License-Identifier: Apache-2.0
#include "espalier/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "espalier/calibration.h"
#include "espalier/configuration.h"
#include "espalier/planner.h"
#include "profile/measured_operators.h"

namespace espalier::calibrate::profile_test {
namespace {

Job two_layers(const std::string& more = "") {
  const auto job = load_job(
      "model: {model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4, "
      "intermediate_size: 128, vocab_size: 128, tie_word_embeddings: false}\n"
      "cluster: {nodes: 1, devices_per_node: 1, device: t4}\n"
      "engine: espalier\ntraining: {sequence_length: 32, global_batch: 8, precision: fp32, optimizer: adam}\n" +
          more,
      "job.yaml", ".", {});
  EXPECT_TRUE(job) << job.error().message();
  return *job;
}

/// Returns a record of a machine on which every operator takes 1 ms and 1 µs per token forward, twice that for
/// inputs, and as much as forward for weights.
OperatorRecord record(const Job& job, std::int64_t samples, std::int64_t microbatches, double rest_s) {
  profile::MeasuredOperators rows;
  double once = 0;
  for (const std::int32_t index : job.model.layers) {
    const LayerKind& kind = job.model.kinds[static_cast<std::size_t>(index)];
    for (const Operator& op : kind.operators) {
      const auto work = profile::work_on_rank(kind, op, Strategy{}, job.model.vocabulary, job.training.sequence.main, samples);
      const double f = 1e-3 + 1e-6 * static_cast<double>(work.tokens);
      rows.add({work, {f, 2 * f, f}});
      once += 4 * f;
    }
  }
  base::JsonWriter json;
  json.begin_object().key("schema").value("espalier.operator-times/1").key("steps").value(5);
  json.key("step_s")
      .value(static_cast<double>(microbatches) * once + 0.25 + rest_s)
      .key("operators_s")
      .value(static_cast<double>(microbatches) * once);
  json.key("update_s").value(0.25).key("updated_elements").value(std::int64_t{1000}).key("late_calls").value(0);
  json.key("operators").begin_array();
  for (const auto& row : rows.rows()) profile::write_row(json, row);
  json.end_array().end_object();
  return {{"record.json", json.text()}, microbatches, true};
}

ProfileInputs inputs(const Job& job) {
  // Operators and update exclude 10 ms per step and 2 ms per micro-batch.
  return {{record(job, 1, 2, 0.014), record(job, 1, 6, 0.022), record(job, 4, 2, 0.014)}, nullptr, {}, "a test"};
}

TEST(Profile, HostWorkIsTheLineOverMicroBatches) {
  const Job job = two_layers();
  const auto profile = make_profile(job, inputs(job));
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_NEAR(profile->step_s, 0.010, 1e-9);
  EXPECT_NEAR(profile->micro_batch_s, 0.002, 1e-9);
  EXPECT_NEAR(profile->update_bytes_per_s, 3 * 1000 * 32 / 0.75, 1e-6);  // fp32: 32 bytes per parameter
  EXPECT_TRUE(profile->notes.empty());
}

// The written profile is read again, so that an unusable profile fails here and not later.
TEST(Profile, IsRefusedWhereNoJobWouldTakeIt) {
  const Job job = two_layers();
  ProfileInputs slow = inputs(job);
  slow.records = {record(job, 1, 2, 20), record(job, 1, 6, 20), record(job, 4, 2, 20)};
  const auto profile = make_profile(job, slow);
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message(), testing::AllOf(testing::HasSubstr("coefficients.step_s"), testing::HasSubstr("0 to 5")));
}

TEST(Profile, AStepIsTheSumOfWhatWasMeasured) {
  Job job = two_layers();
  const auto profile = make_profile(job, inputs(job));
  ASSERT_TRUE(profile);
  const auto calibration = read_calibration(profile->yaml, "profile.yaml");
  ASSERT_TRUE(calibration) << calibration.error().message();
  ASSERT_TRUE(use_calibration(job, *calibration).ok());
  Strategy strategy;
  Schedule schedule;
  schedule.micro_batch = 2;  // between the counts that were measured
  schedule.microbatches = 4;
  complete_configuration(job, strategy, schedule);
  const auto result = estimate(job, strategy, schedule);
  ASSERT_TRUE(result) << result.error().message();
  double operators = 0;
  for (const std::int32_t index : job.model.layers)
    operators += static_cast<double>(job.model.kinds[static_cast<std::size_t>(index)].operators.size());
  const double parameters = static_cast<double>(parameter_count(job.model));
  const double expected = 0.010 + 4 * (0.002 + operators * 4 * (1e-3 + 64e-6)) + parameters * 32 / (3 * 1000 * 32 / 0.75);
  EXPECT_NEAR(static_cast<double>(result->prediction.iteration_ns) * 1e-9, expected, 1e-6);
}

TEST(Profile, OneCountOfSamplesIsRefusedByName) {
  const Job job = two_layers();
  const auto profile = make_profile(job, {{record(job, 1, 2, 0.01), record(job, 1, 6, 0.02)}, nullptr, {}, ""});
  ASSERT_FALSE(profile);
  EXPECT_NE(profile.error().found.find("embedding"), std::string::npos) << profile.error().message();
}

TEST(Profile, ADamagedRecordIsRefusedByPlace) {
  const Job job = two_layers();
  ProfileInputs damaged = inputs(job);
  damaged.records.front().text.text.resize(200);
  EXPECT_FALSE(make_profile(job, damaged));
  damaged.records.front().text.text = "{\"schema\": \"espalier.plan/2\"}";
  const auto other = make_profile(job, damaged);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().expected.find("operator-times"), std::string::npos);
}

}  // namespace
}  // namespace espalier::calibrate::profile_test
