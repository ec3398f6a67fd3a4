// SPDX-License-Identifier: Apache-2.0
// Tests results of plans on unlike devices: the rows next to the answer are derived again, and a wrong row is
// detected.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "espalier/check.h"
#include "espalier/documents.h"
#include "planner/test_jobs.h"

namespace espalier::report {
namespace {

struct Written {
  Job job = planner::test::job("gpt2",
                               "{groups: [{nodes: 1, devices_per_node: 2, device: h100-sxm-80gb}, {nodes: 1, devices_per_node: "
                               "4, device: a100-sxm-40gb}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
                               "{sequence_length: 1024, global_batch: 32, precision: fp16}");
  PlannerResult result = planner::test::planned(job);
};

/// Returns whether the check accepts the rows after a change of them.
bool rows_right(Written w, const std::function<void(std::vector<Alternative>&)>& change) {
  change(w.result.alternatives);
  const std::string text = to_json(w.result);
  const auto report = check_result(w.job, w.result, text);
  EXPECT_TRUE(report.ok()) << report.error().message();
  for (const Finding& finding : report->findings)
    if (finding.name == "alternatives") return finding.ok;
  ADD_FAILURE() << "nothing was said of the rows";
  return false;
}

TEST(GroupRows, AreFoundAgain) {
  const Written written;
  ASSERT_EQ(written.result.alternatives.size(), 5U);
  EXPECT_TRUE(rows_right(written, [](std::vector<Alternative>&) {}));
}

TEST(GroupRows, AnotherTimePeakOrNameIsNoticed) {
  const Written written;
  for (std::size_t i = 0; i < written.result.alternatives.size(); ++i) {
    const std::string& label = written.result.alternatives[i].label;
    EXPECT_FALSE(rows_right(written, [i](std::vector<Alternative>& rows) { rows[i].iteration_ns += 1; })) << label;
    EXPECT_FALSE(rows_right(written, [i](std::vector<Alternative>& rows) { rows[i].peak_memory_bytes -= 1; })) << label;
    EXPECT_FALSE(rows_right(written, [i](std::vector<Alternative>& rows) { rows[i].label += "?"; })) << label;
    EXPECT_FALSE(rows_right(written, [i](std::vector<Alternative>& rows) { rows[i].fits = false; })) << label;
  }
}

TEST(GroupRows, NoneMayBeMissing) {
  const Written written;
  EXPECT_FALSE(rows_right(written, [](std::vector<Alternative>& rows) { rows.pop_back(); }));
}

}  // namespace
}  // namespace espalier::report
