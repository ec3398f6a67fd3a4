// SPDX-License-Identifier: Apache-2.0
// Checks the shipped data with published runs, predicted like in `validate`. Step times of table 5 are among the
// fitted data (lab/accuracy-report.md judges them left out); nothing was fitted to allocated memory.
//   runs/korthikanti_table5.jsonl        iteration times of Korthikanti et al. 2022, table 5 (and §6.3: 530B on 2,240
//                                        GPUs)
//   runs/megatron_golden_memory.jsonl    peak bytes of Megatron-LM's own 7B functional tests (last rank)
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "data/source_dir.h"
#include "planner/estimate.h"
#include "runs/validate.h"

namespace espalier {
namespace {

Validation validate_file(const std::string& name) {
  const std::string path = std::string(ESPALIER_SOURCE_DIR) + "/tests/scenario/runs/" + name;
  const auto records = read_run_records_file(path);
  EXPECT_TRUE(records.ok()) << (records.ok() ? "" : records.error().message());
  return runs::validate_runs(*records, planner::predict);
}

TEST(Sanity, KorthikantiTableFive) {
  const Validation v = validate_file("korthikanti_table5.jsonl");
  ASSERT_EQ(v.results.size(), 9u);
  double sum = 0;
  for (std::size_t i = 0; i < 8; ++i) {  // the eight rows of table 5
    EXPECT_LE(std::abs(v.results[i].time_error()), 0.15) << v.results[i].id;
    EXPECT_EQ(v.results[i].calibration.rfind("calibrated: a100-sxm-80gb, megatron-lm-2021", 0), 0u) << v.results[i].calibration;
    EXPECT_TRUE(v.results[i].in_calibration);
    sum += std::abs(v.results[i].time_error());
  }
  EXPECT_LE(sum / 8, 0.08);
}

TEST(Sanity, MegatronGoldenMemory) {
  const Validation v = validate_file("megatron_golden_memory.jsonl");
  ASSERT_GE(v.results.size(), 3u);
  for (const RunResult& r : v.results) {
    ASSERT_TRUE(r.predicted_bytes && r.measured_bytes) << r.id;
    EXPECT_LE(std::abs(r.memory_error()), 0.10) << r.id;
  }
}

}  // namespace
}  // namespace espalier
