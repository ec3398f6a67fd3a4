// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "espalier/compare.h"
#include "espalier/documents.h"
#include "espalier/explain.h"
#include "espalier/validate.h"
#include "planner/phase_testing.h"

namespace espalier::report {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

PlannerResult result_of(std::int32_t tp, std::int64_t iteration_ns) {
  PlannerResult r;
  r.plan.only_pipeline().schedule.micro_batch = 1;
  Strategy s;
  s.tp = tp;
  r.plan.only_pipeline().stages = {{{{0, tp, 1}}, {Chunk{{{0, 3, s}}}}}};
  r.prediction.iteration_ns = iteration_ns;
  r.prediction.breakdown.compute_ns = iteration_ns;
  r.prediction.peak_memory_bytes = 3LL << 30;
  r.prediction.memory_limit_bytes = 2LL << 30;
  r.prediction.peak_memory_bytes_per_stage = {3LL << 30};
  return r;
}

TEST(Compare, ShowsDifferencesToTheFirstAndOnlyDifferingDimensions) {
  const std::string text = compare({{"a.json", result_of(1, 1'000'000'000)}, {"b.json", result_of(2, 1'500'000'000)}});
  EXPECT_THAT(text, HasSubstr("+50.0 %"));
  EXPECT_THAT(text, HasSubstr("\n  tp "));
  EXPECT_EQ(text.find("\n  pp "), std::string::npos);
  EXPECT_TRUE(base::read_json(compare_json({{"a.json", result_of(1, 1)}}), "c"));
}

/// Returns one stage of two devices: TP2 for the first two layers, then replicas.
PlannerResult mixed_result() {
  PlannerResult r = result_of(2, 1'200'000'000);
  r.plan.only_pipeline().schedule.micro_batch = 2;
  Strategy replicas;
  replicas.dp = 2;
  auto& ranges = r.plan.only_pipeline().stages[0].chunks[0].ranges;
  ranges = {{0, 1, ranges[0].strategy}, {2, 3, replicas}};
  return r;
}

TEST(Compare, SaysMixedWhereLayersDiffer) {
  const std::string text = compare({{"a.json", result_of(2, 1'000'000'000)}, {"b.json", mixed_result()}});
  EXPECT_THAT(text, testing::ContainsRegex("\n  tp +2 +mixed"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  dp +1 +mixed"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  micro_batch +1 +mixed"));  // 2 samples with tp 2, 1 with dp 2
  EXPECT_THAT(text, HasSubstr("Layers of 2"));
  EXPECT_THAT(text, HasSubstr("embedding TP2, TP2 ×1, DP2 ×1, head DP2"));
  // A mixed dimension is a difference by itself.
  EXPECT_THAT(compare({{"b.json", mixed_result()}}), HasSubstr("mixed"));
}

TEST(Explain, ShowsTheLayersAndWhatTheyGain) {
  PlannerResult r = mixed_result();
  r.search.reason = SearchEnd::gap;
  r.search.phases = planner::test::layer_phases(1'500'000'000, 100, 40, 5, 2);
  r.search.balance = {{"exact", {0}, 0, 0, 1'200'000'000}};
  const std::string text = explain(r);
  EXPECT_THAT(text, HasSubstr("embedding TP2, TP2 ×1, DP2 ×1, head DP2"));
  EXPECT_THAT(text, HasSubstr("20.0 % less time than the best uniform plan (1.500 s)"));
  EXPECT_THAT(text, HasSubstr("2 of 5 pipelines"));
  EXPECT_THAT(text, HasSubstr("exact"));
  EXPECT_THAT(text, HasSubstr("How the uniform space was covered (gap)"));
}

TEST(Explain, NamesTheBottleneckAndTheMissingMemory) {
  const auto sentences = bottlenecks(result_of(1, 1'000'000'000));
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_THAT(sentences[0], HasSubstr("compute takes 100.0 %"));
  EXPECT_THAT(sentences[1], HasSubstr("1.0 GiB too much"));
}

TEST(OutputFiles, AppearWholeOrNotAtAll) {
  const fs::path folder = fs::path(testing::TempDir()) / "espalier_output_files";
  fs::remove_all(folder);
  const auto written = write_answer((folder / "deep/er").string(), result_of(1, 1), "{}");
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(written->size(), 3u);
  EXPECT_TRUE(write_file((folder / "x").string(), "one").ok());
  EXPECT_TRUE(write_file((folder / "x").string(), "two").ok());
  std::ifstream in(folder / "x");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "two");
  EXPECT_FALSE(fs::exists(folder / "x.part"));
  EXPECT_FALSE(write_file((folder / "no/such/folder/x").string(), "text").ok());
  EXPECT_TRUE(write_file("/dev/null", "text").ok());
  EXPECT_FALSE(write_answer("/dev/null/out", result_of(1, 1), ""));
  fs::remove_all(folder);
}

TEST(ValidationText, ListsReasonsAndWorstErrors) {
  Validation v;
  v.skipped = {{"tp missing", 3}, {"seq missing", 5}};
  RunResult r;
  r.id = "run-7";
  r.predicted_s = 1.5;
  r.measured_s = 1.0;
  v.results = {r};
  const std::string text = to_text(v, 5);
  EXPECT_LT(text.find("seq missing"), text.find("tp missing"));  // most frequent first
  EXPECT_THAT(text, HasSubstr("run-7"));
  EXPECT_THAT(text, HasSubstr("50.0 %"));
}

}  // namespace
}  // namespace espalier::report
