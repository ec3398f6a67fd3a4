// SPDX-License-Identifier: Apache-2.0
#include "cluster/calibration.h"

#include <algorithm>
#include <array>

#include "base/document.h"

namespace espalier::cluster {
namespace {

using E = DeviceEfficiency;

constexpr std::array<EfficiencyField, 14> kEfficiencyFields = {{
    {"gemm_max", &E::gemm_max, 0.05, 1.0, 0.75, 0.2, "fraction of peak that a large GEMM reaches"},
    {"gemm_memory", &E::gemm_memory, 0.2, 1.0, 0.75, 0.2, "fraction of the memory bandwidth at which GEMM operands are streamed"},
    {"gemm_fp8", &E::gemm_fp8, 0.3, 1.2, 1.0, 0.2, "fp8 GEMMs relative to gemm_max"},
    {"gemm_batched", &E::gemm_batched, 0.2, 1.2, 0.85, 0.2, "batched GEMMs of unfused attention relative to gemm_max"},
    {"gemm_grouped", &E::gemm_grouped, 0.2, 1.0, 0.9, 0.2, "grouped GEMMs of experts relative to gemm_max"},
    {"sustained", &E::sustained, 0.1, 1.25, 0.88, 0.1, "rates in training relative to isolated kernels"},
    {"sustained_fp8", &E::sustained_fp8, 0.5, 1.5, 1.0, 0.08, "rates of 8-bit matrix products in training relative to sustained"},
    {"attention_max", &E::attention_max, 0.02, 1.0, 0.5, 0.3,
     "fused attention at head size 128 and long sequences, fraction of peak"},
    {"attention_softmax", &E::attention_softmax, 0.0, 1000, 64, 0.7,
     "work per score in addition to its products, in units of head size"},
    {"attention_prologue", &E::attention_prologue, 0.0, 10000, 200, 0.7, "overhead of a query, as a number of additional keys"},
    {"attention_rows", &E::attention_rows, 0.0, 1e6, 8000, 0.7, "queries × heads in flight that fill the device"},
    {"attention_backward", &E::attention_backward, 0.05, 2.0, 0.8, 0.2, "fused attention backward relative to its forward rate"},
    {"attention_flash2", &E::attention_flash2, 0.05, 2.0, 1.0, 0.3,
     "FlashAttention-2 relative to the device's own attention kernels"},
    {"memory_max", &E::memory_max, 0.05, 1.0, 0.8, 0.2, "fraction of the memory bandwidth that element-wise kernels reach"},
}};

DeviceCalibration read_one(base::Reader& r) {
  DeviceCalibration c;
  c.device = r.required_string("device");
  c.basis = r.required_string("basis");
  c.range = r.optional_string("range", "");
  base::Reader values = r.child("coefficients", true);
  for (const EfficiencyField& field : kEfficiencyFields)
    if (values.has(field.name))
      c.values.emplace_back(field.member, values.optional_real(field.name, field.low, field.high, field.prior));
  if (values.has("kernel_floor_us")) c.kernel_floor_us = values.optional_real("kernel_floor_us", 0.0, 100.0, 0.0);
  values.finish();
  r.ignore({"error", "residuals"});  // written for people, and anew by every fit
  r.finish();
  return c;
}

}  // namespace

std::span<const EfficiencyField> efficiency_fields() { return kEfficiencyFields; }

Result<std::vector<DeviceCalibration>> read_device_calibration(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  (void)root.required_string("schema");
  std::vector<DeviceCalibration> out;
  root.each("calibrations", true, [&](base::Reader& r) { out.push_back(read_one(r)); });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

void apply_training(const DeviceCalibration& calibration, DeviceKind& device) {
  for (const auto& [member, value] : calibration.values) device.efficiency.*member = value;
  const auto same = [](const auto& source) { return source.first == "efficiency"; };
  const auto found = std::find_if(device.sources.begin(), device.sources.end(), same);
  if (found != device.sources.end()) found->second += "; " + calibration.basis;
}

void apply(const DeviceCalibration& calibration, DeviceKind& device) {
  for (const auto& [member, value] : calibration.values) device.efficiency.*member = value;
  if (calibration.kernel_floor_us) device.efficiency.kernel_floor = Seconds(*calibration.kernel_floor_us * 1e-6);
  device.calibrated = true;
  device.calibration_range = calibration.range;
  const auto same = [](const auto& source) { return source.first == "efficiency"; };
  const auto found = std::find_if(device.sources.begin(), device.sources.end(), same);
  if (found != device.sources.end()) found->second = calibration.basis + "; not fitted: " + found->second;
}

}  // namespace espalier::cluster
