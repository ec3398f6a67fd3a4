// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of shipped tables with any bytes: catalogue, calibrations, defaults of frameworks, intervals,
// errors of memory. A table that a developer edits is rejected with a helpful error, or read.
#include "cluster/calibration.h"
#include "cluster/catalogue.h"
#include "cluster/fabric_calibration.h"
#include "fuzz_expect.h"
#include "job/framework_defaults.h"
#include "plan/coefficients.h"
#include "planner/interval.h"
#include "planner/interval_exceptions.h"
#include "planner/memory_margin.h"

namespace {

template <class T>
void expect_read(const espalier::Result<T>& read) {
  if (!read.ok()) espalier::fuzz::expect_helpful(read.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view text = fuzz::text_of(data, size);
  expect_read(cluster::read_catalogue(text, "devices.yaml"));
  expect_read(cluster::read_device_calibration(text, "calibration/devices.yaml"));
  expect_read(cluster::read_fabric_calibration(text, "calibration/fabrics.yaml"));
  expect_read(read_framework_calibration(text, "calibration/frameworks.yaml"));
  expect_read(job::read_run_defaults(text, "framework_defaults.yaml"));
  expect_read(planner::read_memory_errors(text, "calibration/memory.yaml"));
  expect_read(planner::read_interval_exceptions(text, "calibration/interval_exceptions.yaml"));
  const auto intervals = planner::read_intervals(text, "calibration/intervals.yaml");
  expect_read(intervals);
  if (!intervals.ok()) return 0;
  const planner::PredictionInterval found = planner::interval_for(*intervals, "megatron-core", "h100-sxm-80gb");
  fuzz::expect(found.low > 0 && found.low <= found.high, "an accepted interval has its ends in order");
  return 0;
}
