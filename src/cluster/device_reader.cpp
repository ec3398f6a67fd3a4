// SPDX-License-Identifier: Apache-2.0
// Reads and overrides devices. A figure that a cluster file replaces loses the catalogue's source.
#include "cluster/device_reader.h"

#include <algorithm>
#include <string>

#include "cluster/calibration.h"
#include "cluster/level_reader.h"
#include "cluster/names.h"

namespace espalier::cluster {
namespace {

constexpr double kMaxTflops = 1e6;
constexpr std::int64_t kMaxMemory = std::int64_t{1} << 50;  // 1 PiB

void read_peaks(base::Reader& reader, DeviceKind& device) {
  if (!reader.has("peak_tflops")) return;
  base::Reader peaks = reader.child("peak_tflops", false);
  for (std::size_t i = 0; i < kPrecisionNames.size(); ++i)
    device.peak[i] = TFLOPs(peaks.optional_real(kPrecisionNames[i], 0.0, kMaxTflops, device.peak[i].count() / 1e12));
  peaks.finish();
}

void read_efficiencies(base::Reader& reader, DeviceEfficiency& e) {
  if (!reader.has("efficiency")) return;
  base::Reader r = reader.child("efficiency", false);
  for (const EfficiencyField& field : efficiency_fields())
    e.*field.member = r.optional_real(field.name, field.low, field.high, e.*field.member);
  e.kernel_launch = Seconds(read_latency(r, "kernel_launch", e.kernel_launch.count()));
  e.kernel_floor = Seconds(read_latency(r, "kernel_floor", e.kernel_floor.count()));
  e.overlap_compute_slowdown = r.optional_real("overlap_compute_slowdown", 1.0, 100.0, e.overlap_compute_slowdown);
  e.overlap_communication_slowdown =
      r.optional_real("overlap_communication_slowdown", 1.0, 100.0, e.overlap_communication_slowdown);
  e.overlap_traffic = r.optional_real("overlap_traffic", 0.0, 20.0, e.overlap_traffic);
  e.measured_overlap = r.optional_bool("measured_overlap", e.measured_overlap);
  if (!e.measured_overlap && 1.0 / e.overlap_compute_slowdown + 1.0 / e.overlap_communication_slowdown < 1.0)
    r.fail("overlap_compute_slowdown", "slowdown factors that make overlapping slower than running one after the other",
           "factors with 1/compute + 1/communication at least 1", "larger factors need measured_overlap: true");
  r.finish();
}

void read_sources(base::Reader& reader, DeviceKind& device) {
  if (!reader.has("sources")) return;
  base::Reader r = reader.child("sources", false);
  for (std::string_view field : kSourcedFields) {
    std::string text = r.optional_string(field, "");
    if (!text.empty()) device.sources.emplace_back(std::string(field), std::move(text));
  }
  std::string host = r.optional_string("host", "");  // for devices whose usual host is known
  if (!host.empty()) device.sources.emplace_back("host", std::move(host));
  r.finish();
}

/// Marks figures that replace the catalogue's: their source is the cluster file.
void mark_overridden(base::Reader& reader, DeviceKind& device) {
  for (std::string_view field : kSourcedFields) {
    if (field == "node" || !reader.has(field)) continue;  // `node` belongs to the catalogue
    const auto same = [&](const auto& source) { return source.first == field; };
    device.sources.erase(std::remove_if(device.sources.begin(), device.sources.end(), same), device.sources.end());
    if (!reader.has("sources")) device.sources.emplace_back(std::string(field), "given in " + reader.document().where);
  }
}

}  // namespace

void read_device_fields(base::Reader& reader, DeviceKind& device) {
  mark_overridden(reader, device);
  read_peaks(reader, device);
  device.memory = Bytes(std::clamp<std::int64_t>(reader.optional_bytes("memory", device.memory.count()), 0, kMaxMemory));
  device.context_reserve =
      Bytes(std::clamp<std::int64_t>(reader.optional_bytes("context_reserve", device.context_reserve.count()), 0, kMaxMemory));
  device.memory_bandwidth = BytesPerSecond(read_bandwidth(reader, "memory_bandwidth", device.memory_bandwidth.count()));
  read_efficiencies(reader, device.efficiency);
  read_sources(reader, device);
}

void check_device(base::Reader& reader, const DeviceKind& device) {
  const bool computes = std::any_of(device.peak.begin(), device.peak.end(), [](FlopsPerSecond p) { return p.count() > 0; });
  if (!computes) reader.fail("peak_tflops", "no peak", "at least one precision with a peak above 0, in TFLOP/s");
  if (device.memory_bandwidth.count() <= 0) reader.fail("memory_bandwidth", "nothing", "the memory bandwidth, e.g. 3.35TB/s");
  if (device.memory <= device.context_reserve)
    reader.fail("memory", std::to_string(device.memory.count()) + " bytes",
                "more than context_reserve (" + std::to_string(device.context_reserve.count()) + " bytes)");
}

}  // namespace espalier::cluster
