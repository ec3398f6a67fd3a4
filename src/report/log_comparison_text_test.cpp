// SPDX-License-Identifier: Apache-2.0
// Tests the text that compares a log with its plan, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/log_comparison.h"

namespace espalier::report {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

LogComparison half_as_fast() {
  LogComparison c;
  c.format = "torchtitan";
  c.steps = 40;
  c.warm_up = 10;
  c.measured_s = 2;
  c.predicted.iteration_ns = 1'000'000'000;
  c.predicted.tokens_per_s_per_device = 4000;
  c.predicted.model_tflops_per_device = 200;
  c.predicted.mfu = 0.5;
  c.predicted.peak_memory_bytes = std::int64_t{40} << 30;
  c.tokens_per_s_per_device = 2000;
  c.model_tflops_per_device = 100;
  c.mfu = 0.25;
  c.peak_memory_bytes = std::int64_t{50} << 30;
  c.findings = {"Slower than hoped."};
  c.published = {{"Llama-7B", "A100", "bf16", "a page", "page-1", 6.7e9, 0, 8, 4096, 3000}};
  return c;
}

// 6 · 6.7e9 · 3000 = 120.6e12.
TEST(LogComparisonText, FiguresStandBesideEachOther) {
  const std::string text = to_text(half_as_fast());
  EXPECT_THAT(text, HasSubstr("torchtitan log, median of 40 lines, 10 skipped at the beginning; it prints no arguments"));
  EXPECT_THAT(text, ContainsRegex("step +1.000 s +2.000 s +\\+100.0 %"));
  EXPECT_THAT(text, ContainsRegex("tokens/s/GPU +4,000 +2,000 +-50.0 %"));
  EXPECT_THAT(text, ContainsRegex("peak memory +40.0 GiB +50.0 GiB +\\+25.0 %"));
  EXPECT_THAT(text, HasSubstr("Slower than hoped."));
  EXPECT_THAT(text, ContainsRegex("Llama-7B +A100 +8 +4096 +bf16 +3,000 +121 +a page"));
  LogComparison alone = half_as_fast();
  alone.published.clear();
  EXPECT_THAT(to_text(alone), HasSubstr("No published runs"));
}

TEST(LogComparisonText, JsonHasTheSame) {
  const auto json = nlohmann::json::parse(to_json(half_as_fast()));
  EXPECT_EQ(json["schema"], "espalier.log-comparison/1");
  EXPECT_DOUBLE_EQ(json["predicted_s"], 1.0);
  EXPECT_DOUBLE_EQ(json["measured_s"], 2.0);
  EXPECT_EQ(json["peak_memory_bytes"], std::int64_t{50} << 30);
  EXPECT_EQ(json["findings"][0], "Slower than hoped.");
  EXPECT_NEAR(json["published"][0]["tflops_per_device"].get<double>(), 120.6, 1e-9);
}

}  // namespace
}  // namespace espalier::report
