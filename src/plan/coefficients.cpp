// SPDX-License-Identifier: Apache-2.0
#include "plan/coefficients.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "data/framework_calibration_yaml.h"

namespace espalier {
namespace {

using Coefficients = FrameworkCoefficients;

// Sets the priors: 1 and 0 describe an engine that launches, fuses and communicates as the device model assumes.
constexpr std::array<CoefficientField, 10> kFields = {{
    {"compute", &Coefficients::compute, 0.9, 2.0, 1.03, 0.08, false,
     "time of GEMM and attention kernels relative to the device model"},
    {"elementwise", &Coefficients::elementwise, 0.3, 6.0, 1.0, 0.30, false,
     "bytes of memory-bound operators relative to fused kernels"},
    {"launch", &Coefficients::launch, 0.1, 10.0, 1.0, 0.30, false, "CPU time per kernel launch relative to the device's host"},
    {"tensor_communication", &Coefficients::tensor_communication, 0.5, 5.0, 1.0, 0.30, false,
     "time of TP, CP and EP collectives"},
    {"data_communication", &Coefficients::data_communication, 0.5, 5.0, 1.0, 0.30, false, "time of data-parallel collectives"},
    {"exposed_share", &Coefficients::exposed_share, 0.0, 1.0, 0.0, 0.20, true,
     "share of hideable data-parallel communication that is exposed"},
    {"step_s", &Coefficients::step_s, 0.0, 5.0, 0.0, 0.05, true, "host seconds per step"},
    {"micro_batch_s", &Coefficients::micro_batch_s, 0.0, 2.0, 0.0, 0.005, true, "host seconds per micro-batch and stage", false},
    {"collective_wait_s", &Coefficients::collective_wait_s, 0.0, 0.002, 0.0, 0.0002, true,
     "host seconds per rank that a TP collective waits with a pipeline across nodes", false},
    {"network_wait_s", &Coefficients::network_wait_s, 0.0, 0.0005, 0.0, 0.00005, true,
     "additional seconds per rank of TP collectives across nodes", false},
}};

}  // namespace

std::span<const CoefficientField> coefficient_fields() { return kFields; }

Result<FrameworkCalibration> read_framework_calibration(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  FrameworkCalibration out;
  (void)root.required_string("schema");
  root.each("sources", false, [&](base::Reader& r) {
    out.sources.push_back(r.required_string("name"));
    r.finish();
  });
  root.each("frameworks", true, [&](base::Reader& r) {
    std::string engine = r.required_string("engine");
    base::Era era = base::read_era(r);
    (void)r.optional_string("basis", "");
    base::Reader values = r.child("coefficients", true);
    FrameworkCoefficients f;
    for (const CoefficientField& field : kFields)
      f.*field.member = values.optional_real(field.name, field.low, field.high, field.prior);
    values.finish();
    r.finish();
    if (std::any_of(out.rows.begin(), out.rows.end(),
                    [&](const FrameworkCalibration::Row& row) { return row.engine == engine && base::overlap(row.era, era); }))
      r.fail("engine", base::cat(engine, " a second time"), "one row per engine and era");
    out.rows.push_back({std::move(engine), std::move(era), f});
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

std::optional<FrameworkCoefficients> FrameworkCalibration::of(std::string_view engine,
                                                              const std::optional<base::Version>& version) const {
  std::vector<Row> own;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(own), [&](const Row& row) { return row.engine == engine; });
  const Row* newest = base::row_at(std::span<const Row>(own), version);
  return newest == nullptr ? std::nullopt : std::optional(newest->coefficients);
}

const FrameworkCalibration& framework_calibration() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const FrameworkCalibration shipped = [] {
    const std::string where = "data/calibration/frameworks.yaml";
    auto read = read_framework_calibration(embedded::framework_calibration_yaml, where);
    if (!read) base::check_failed(read.error().message().c_str(), where.c_str(), 0);
    return std::move(read).value();
  }();
  return shipped;
}

}  // namespace espalier
