// SPDX-License-Identifier: Apache-2.0
// Tests the documents of measured runs, a validation and a calibration, as scripts read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "report/calibration_text.h"
#include "report/validation_text.h"

namespace espalier::report::validation_json_test {
namespace {

using runs::validate_runs;
using testing::HasSubstr;

/// Returns a llama-like run on two nodes with everything stated except for `layout`: tp, dp and the measurements.
std::string line(const std::string& layout) {
  std::string text =
      R"j({"id": "r1", "source": "lab", "model": {"name": "llama-like", "layers": 16, "hidden": 2048, "ffn": 8192, "heads": 32, "kv_heads": 32,
          "vocab": 131072, "params": 1342177280}, "seq": 4096, "gpu": {"type": "H100", "mem_gb": 80, "count": 16, "per_node": 8},
          "interconnect": {"intra": "NVLink", "inter": "8x400 Gbps per node"}, "zero_stage": 1, "recompute": "none", "microbatch": 2,
          "global_batch": 256, "precision": "bf16 (fp32 grad accumulation)", "schedule": "1f1b", "framework": "nanotron", "status": "ok",
          "pp": 2, "sp": false, )j";
  std::erase(text, '\n');
  return text + layout + "}\n";
}

/// Predicts 1 s per tensor degree and 10 GB.
Result<Prediction> fake(const Job&, const Strategy& strategy, const Schedule&) {
  Prediction p;
  p.iteration_ns = std::int64_t{strategy.tp} * 1'000'000'000;
  p.peak_memory_bytes = 20'000'000'000;
  p.peak_memory_bytes_per_stage = {20'000'000'000, 10'000'000'000};
  p.fits = strategy.tp > 1;
  p.confidence.basis = "fake";
  return p;
}

RunFile three_runs() {
  auto records = read_run_records(line(R"("tp": 2, "dp": 4, "measured": {"iteration_s": 2.0, "peak_mem_gb": 40})") +
                                      line(R"("tp": 1, "dp": 8, "measured": {"iteration_s": 4.0})") +
                                      line(R"("tp": null, "dp": 4, "measured": {"iteration_s": 4.0})"),
                                  "t");
  EXPECT_TRUE(records) << records.error().message();
  return std::move(records).value();
}

TEST(ValidationDocument, ShowsTheLinesThatCannotBeRead) {
  RunFile file = three_runs();
  file.unreadable.push_back({ErrorKind::bad_input, "t:9:3", "\"two\"", "a number ≥ 0", ""});
  EXPECT_THAT(to_json(validate_runs(file, fake)), HasSubstr("\"t:9:3\""));
}

TEST(ValidationDocument, ThreadsNeverChangeIt) {
  RunFile many;
  for (int i = 0; i < 30; ++i) {
    for (const RunRecord& r : three_runs().records) many.records.push_back(r);
  }
  ValidationOptions one, four;
  one.threads = 1;
  four.threads = 4;
  EXPECT_EQ(to_json(validate_runs(many, fake, one)), to_json(validate_runs(many, fake, four)));
}

TEST(ValidationDocument, HasTheKeysOfTheContract) {
  const auto document = base::read_json(to_json(validate_runs(three_runs(), fake)), "v");
  ASSERT_TRUE(document) << document.error().message();
  for (const char* key :
       {"schema", "records", "evaluated", "skipped", "time", "memory", "feasibility", "ranking", "by_source", "results"}) {
    EXPECT_NE(document->root.find(key), nullptr) << key;
  }
  const base::Node& first = document->root.find("results")->items.front();
  for (const char* key : {"id", "predicted_s", "measured_s", "error", "calibration", "in_calibration", "defaults"}) {
    EXPECT_NE(first.find(key), nullptr) << key;
  }
}

// A calibration that holds only its device still names its schema, and its text is not empty.
TEST(CalibrationDocument, NamesItsSchema) {
  calibrate::UserCalibration c;
  c.device = "h100-sxm-80gb";
  EXPECT_THAT(to_json(c), HasSubstr("espalier.calibrate/1"));
  EXPECT_THAT(to_text(c), HasSubstr("h100-sxm-80gb"));
}

}  // namespace
}  // namespace espalier::report::validation_json_test
