// SPDX-License-Identifier: Apache-2.0
// Tests the text about measured runs and calibrations, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/document.h"
#include "espalier/documents.h"
#include "espalier/inspect.h"
#include "report/calibration_text.h"
#include "report/validation_text.h"
#include "runs/validate.h"

namespace espalier::report::run_text_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string line(const std::string& id, const std::string& layout) {
  return R"({"id": ")" + id +
         R"(", "source": "lab", "model": {"name": "llama-like", "layers": 16, "hidden": 2048, "ffn": 8192, )" +
         R"("heads": 32, "kv_heads": 32, "vocab": 131072}, "seq": 4096, "gpu": {"type": "H100", "mem_gb": 80, "count": 16, )" +
         R"("per_node": 8}, "interconnect": {"inter": "8x400 Gbps per node"}, "zero_stage": 1, "recompute": "none", )" +
         R"("microbatch": 2, "global_batch": 256, "precision": "bf16", "schedule": "1f1b", "framework": "nanotron", )" +
         R"("status": "ok", "pp": 2, "sp": false, )" + layout + "}\n";
}

RunFile three_runs() {
  auto file = read_run_records(line("exact", R"("tp": 2, "dp": 4, "measured": {"iteration_s": 2.0})") +
                                   line("short", R"("tp": 1, "dp": 8, "measured": {"iteration_s": 4.0})") +
                                   line("silent", R"("tp": null, "dp": 4, "measured": {"iteration_s": 4.0})"),
                               "t");
  EXPECT_TRUE(file) << file.error().message();
  return std::move(file).value();
}

/// Predicts one second per tensor degree.
Result<Prediction> fake(const Job&, const Strategy& strategy, const Schedule&) {
  Prediction p;
  p.iteration_ns = std::int64_t{strategy.tp} * 1'000'000'000;
  p.fits = true;
  return p;
}

// 2 s for 2 s and 1 s for 4 s give errors 0 and −75 %, accuracies 100 and 25 %, mean 62.5 %, bias −37.5 %. One record
// of three is skipped.
TEST(ValidationText, SourcesSkipsAndTheLargestErrors) {
  const Validation v = runs::validate_runs(three_runs(), fake);
  const std::string text = to_text(v, 1);
  EXPECT_THAT(text, testing::ContainsRegex("lab +2/3 +2 +62.5 %"));
  EXPECT_THAT(text, testing::ContainsRegex("all +2/3"));
  EXPECT_THAT(text, HasSubstr("-37.5 %"));
  EXPECT_THAT(text, HasSubstr("tp missing"));
  EXPECT_THAT(text, testing::ContainsRegex("short +1.000 s +4.000 s +-75.0 %"));
  EXPECT_THAT(text, Not(testing::ContainsRegex("exact +2.000 s")));  // one was asked for
  EXPECT_THAT(to_text(v), Not(HasSubstr("largest errors")));
}

TEST(ValidationText, TenUnreadableLinesAreShownAndTheRestCounted) {
  RunFile file = three_runs();
  for (int i = 1; i <= 12; ++i)
    file.unreadable.push_back({ErrorKind::bad_input, "t:" + std::to_string(100 + i), "\"two\"", "a number ≥ 0", ""});
  const std::string text = to_text(runs::validate_runs(file, fake));
  EXPECT_THAT(text, HasSubstr("t:110"));
  EXPECT_THAT(text, Not(HasSubstr("t:111")));
  EXPECT_THAT(text, HasSubstr("and 2 more"));
  EXPECT_THAT(text, testing::ContainsRegex("line cannot be read +12"));
}

TEST(ValidationText, NoMeasurementOfAKindIsADash) {
  RunFile none;
  const std::string text = to_text(runs::validate_runs(none, fake));
  EXPECT_THAT(text, testing::ContainsRegex("all +0/0 +0 +–"));
  EXPECT_THAT(text, Not(HasSubstr("reason for no prediction")));
}

TEST(InspectRun, ShowsTheJobAndEveryDefault) {
  const RunRecord record = three_runs().records.front();
  const RunMapping mapping = map_run(record);
  const std::string text = inspect_run(record, mapping, 0);
  EXPECT_THAT(text, HasSubstr("exact (lab, nanotron)"));
  EXPECT_THAT(text, HasSubstr("cluster    2 × 8 h100-sxm-80gb"));
  EXPECT_THAT(text, HasSubstr("training   sequence 4,096, global batch 256, bf16"));
  EXPECT_THAT(text, HasSubstr("engine     nanotron"));
  EXPECT_THAT(text, HasSubstr("(default)"));
  const auto document = base::read_json(inspect_run_json(record, mapping), "j");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.find("schema")->text, "espalier.run-mapping/1");
  EXPECT_EQ(document->root.find("engine")->text, "nanotron");
  EXPECT_FALSE(document->root.find("defaults")->items.empty());
}

TEST(InspectRun, SaysWhyARunIsNotPredicted) {
  const RunRecord record = three_runs().records.back();
  const RunMapping mapping = map_run(record);
  EXPECT_THAT(inspect_run(record, mapping, 0), HasSubstr("not predicted: tp missing"));
  const auto document = base::read_json(inspect_run_json(record, mapping), "j");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.find("skipped")->text, "tp missing");
  EXPECT_EQ(document->root.find("engine"), nullptr);
}

calibrate::UserCalibration one_run() {
  calibrate::UserCalibration c;
  c.device = "h100-sxm-80gb";
  c.engine = "nanotron";
  c.fit.emplace();
  c.fit->parameters = {{"compute", "", 1.2, 1.26, 0.1, 0.05, false, true}, {"step_s", "", 0.02, 0.02, 0.01, 0.01, true, false}};
  c.fit->runs = {{"run.log", "TP1", 8, 2.0, 1.5, 0, 1.9}};
  c.fit->configurations = 1;
  c.fit->cross_validation = "none: 1 configuration, 3 is the minimum";
  c.fit->devices_low = 8;
  c.fit->devices_high = 16;
  c.fit->warnings = {"nothing was held out"};
  c.runs.notes = {"run.log: median of 5 lines"};
  c.runs.skipped = {{"b", "lab", "no step time", "oom"}};
  return c;
}

// The data took 1 − (0.05/0.1)² = 75 % of the prior's variance; 1.5 s and 1.9 s for 2 s are −25 % and −5 %.
TEST(CalibrationText, CoefficientsRunsAndRemarks) {
  const std::string text = to_text(one_run());
  EXPECT_THAT(text, HasSubstr("h100-sxm-80gb, engine nanotron: 1 runs in 1 configurations, 8 to 16 devices"));
  EXPECT_THAT(text, HasSubstr("unknown, cross-validation none: 1 configuration"));
  EXPECT_THAT(text, testing::ContainsRegex("compute +1.200 +± 10.0 % +1.260 +± 5.0 % +75.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("step_s +0.0200 +± 0.0100 +0.0200 +– +not determined"));
  EXPECT_THAT(text, testing::ContainsRegex("run.log +8 +2.000 s +-25.0 % +– +-5.0 % +TP1"));
  EXPECT_THAT(text, HasSubstr("  - run.log: median of 5 lines\n"));
  EXPECT_THAT(text, HasSubstr("  - skipped b: no step time (oom)\n"));
  EXPECT_THAT(text, HasSubstr("  - warning: nothing was held out\n"));
}

TEST(CalibrationText, ForScriptsWhatWasNotHeldOutIsNull) {
  const auto document = base::read_json(to_json(one_run(), "mine.yaml"), "j");
  ASSERT_TRUE(document);
  const base::Node& run = document->root.find("runs")->items.front();
  EXPECT_EQ(run.find("held_out_s")->kind, base::NodeKind::null);
  EXPECT_EQ(document->root.find("error_after")->kind, base::NodeKind::null);
  const base::Node& first = document->root.find("coefficients")->items.front();
  EXPECT_DOUBLE_EQ(first.find("weight_of_data")->real, 0.75);
  EXPECT_DOUBLE_EQ(first.find("prior_widths")->real, 0.487902);  // ln(1.26/1.2)/0.1
  EXPECT_EQ(document->root.find("file")->text, "mine.yaml");
}

TEST(CalibrationText, AFabricAlone) {
  calibrate::UserCalibration c;
  c.device = "h100-sxm-80gb";
  c.fabric.emplace();
  const auto fields = cluster::fabric_fields();
  c.fabric->levels = {{"rails", false, {{&fields[0], 0.8, 0.5, 0.02, true}, {&fields[1], 2, 2, 1, false}}}};
  c.fabric->tables = {{"t.txt:1", runlog::CollectiveTest::all_gather, 16, 2, 9, 0.25, 0.01}};
  c.fabric->warnings = {"t.txt:1: no closing line"};
  const std::string text = to_text(c);
  EXPECT_THAT(text, HasSubstr("fabric of h100-sxm-80gb\n"));
  EXPECT_THAT(text, testing::ContainsRegex("rails efficiency +network +0.800 .* 0.500 +± 2.0 %"));
  EXPECT_THAT(text, HasSubstr("not determined"));
  EXPECT_THAT(text, testing::ContainsRegex("all-gather +16 +2 +9 +25.0 % +1.0 %"));
  EXPECT_THAT(to_json(c), HasSubstr("\"collectives\""));
}

// gzip begins with 1f 8b; the file name decides whether it is used.
TEST(TraceFile, IsCompressedByItsName) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "espalier_trace_file";
  std::filesystem::create_directories(folder);
  const auto bytes = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  ASSERT_TRUE(write_trace_file((folder / "t.json").string(), "{}").ok());
  EXPECT_EQ(bytes(folder / "t.json"), "{}");
  ASSERT_TRUE(write_trace_file((folder / "t.json.gz").string(), "{}").ok());
  EXPECT_EQ(bytes(folder / "t.json.gz").substr(0, 2), "\x1f\x8b");
  const Status status = write_trace_file((folder / "none" / "t.json").string(), "{}");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace espalier::report::run_text_test
