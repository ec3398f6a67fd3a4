// SPDX-License-Identifier: Apache-2.0
#include "cluster/fabric_calibration.h"

#include <array>

#include "base/document.h"
#include "base/format.h"
#include "cluster/level_reader.h"

namespace espalier::cluster {
namespace {

using E = DeviceEfficiency;
using L = FabricLevel;

constexpr std::array<FabricField, 6> kFabricFields = {{
    {"efficiency", 0.05, 0.95, 0.8, 0.2, [](const L& l) { return l.efficiency; }, [](L& l, double v) { l.efficiency = v; },
     "fraction of the bandwidth that very large collectives reach"},
    {"latency_us", 0.1, 100000.0, 1.0, 0.7, [](const L& l) { return l.latency.count() * 1e6; },
     [](L& l, double v) { l.latency = Seconds(v * 1e-6); }, "one hop of a small message"},
    {"start_us", 0.5, 100000.0, 8.0, 0.7, [](const L& l) { return l.start.count() * 1e6; },
     [](L& l, double v) { l.start = Seconds(v * 1e-6); }, "shortest collective, without its hops"},
    {"ramp", 0.01, 2.0, 1.0, 0.7, [](const L& l) { return l.ramp; }, [](L& l, double v) { l.ramp = v; },
     "loss of mid-sized messages, in units of √(latency part × bandwidth part)"},
    {"small_group", 0.01, 1.0, 0.3, 0.7, [](const L& l) { return l.small_group; }, [](L& l, double v) { l.small_group = v; },
     "share of a ring step that a rank's own part costs"},
    {"congestion", 0.005, 2.0, 0.05, 0.7, [](const L& l) { return l.congestion; }, [](L& l, double v) { l.congestion = v; },
     "bandwidth lost per doubling of the domains joined"},
}};

constexpr std::array<EfficiencyField, 3> kOverlap = {{
    {"compute_slowdown", &E::overlap_compute_slowdown, 1.0, 3.0, 1.05, 0.1,
     "compute during a collective that moves almost nothing"},
    {"communication_slowdown", &E::overlap_communication_slowdown, 1.0, 3.0, 1.05, 0.1, "a collective during compute"},
    {"traffic", &E::overlap_traffic, 0.0, 20.0, 4.0, 0.7, "additional slowdown of compute, times bus rate / memory bandwidth"},
}};

/// Reads one row. `name` is the key that identifies it; null for a kind of network.
FabricCalibration read_one(base::Reader& r, const char* name) {
  FabricCalibration c;
  if (name != nullptr)
    c.fabric = r.required_string(name);
  else
    c.kind = read_kind(r, FabricKind::other);
  c.basis = r.required_string("basis");
  base::Reader values = r.child("coefficients", true);
  for (const FabricField& field : kFabricFields)
    if (values.has(field.name))
      c.values.emplace_back(&field, values.optional_real(field.name, field.low, field.high, field.prior));
  values.finish();
  r.ignore({"residuals"});  // written for people, and anew by every fit
  r.finish();
  return c;
}

void set_all(const FabricCalibration& c, FabricLevel& level) {
  for (const auto& [field, value] : c.values) field->set(level, value);
}

void set_network(const FabricCalibration& c, NetworkSpec& network) {
  FabricLevel level = network.shape;
  level.efficiency = network.efficiency;
  level.latency = network.latency;
  set_all(c, level);
  network.efficiency = level.efficiency;
  network.latency = level.latency;
  network.shape = level;
}

}  // namespace

std::span<const FabricField> fabric_fields() { return kFabricFields; }
std::span<const EfficiencyField> overlap_fields() { return kOverlap; }

Result<FabricCalibrations> read_fabric_calibration(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  FabricCalibrations out;
  (void)root.required_string("schema");
  if (root.has("overlap")) {
    base::Reader r = root.child("overlap", true);
    out.overlap_basis = r.required_string("basis");
    base::Reader values = r.child("coefficients", true);
    for (const EfficiencyField& f : kOverlap)
      if (values.has(f.name)) out.overlap.emplace_back(f.member, values.optional_real(f.name, f.low, f.high, f.prior));
    values.finish();
    r.ignore({"residuals"});
    r.finish();
  }
  root.each("networks", false, [&](base::Reader& r) { out.networks.push_back(read_one(r, nullptr)); });
  root.each("fabrics", false, [&](base::Reader& r) { out.fabrics.push_back(read_one(r, "fabric")); });
  root.each("clusters", false, [&](base::Reader& r) { out.clusters.push_back(read_one(r, "cluster")); });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

void write_level(base::JsonWriter& w, const FabricCalibration& c) {
  constexpr std::string_view kMicroseconds = "_us";
  for (const auto& [field, value] : c.values) {
    if (!field->name.ends_with(kMicroseconds))
      w.key(field->name).value(value);
    else
      w.key(field->name.substr(0, field->name.size() - kMicroseconds.size())).value(base::cat(base::fixed(value, 4), "us"));
  }
}

void apply(const FabricCalibrations& calibrations, Catalogue& catalogue) {
  for (const FabricCalibration& c : calibrations.fabrics)
    for (FabricTemplate& fabric : catalogue.fabrics) {
      if (fabric.name != c.fabric) continue;
      for (LevelSpec& spec : fabric.levels) set_all(c, spec.level);
      if (fabric.domain) set_all(c, fabric.domain->level);
      fabric.source = c.basis + "; not fitted: " + fabric.source;
    }
  for (std::size_t i = 0; i < catalogue.devices.size(); ++i) {
    UsualNode& node = catalogue.nodes[i];
    for (const FabricCalibration& c : calibrations.networks)
      if (c.kind == node.network.kind) set_network(c, node.network);
    const FabricTemplate* fabric = catalogue.fabric(node.fabric);
    if (fabric != nullptr && fabric->levels.front().level.kind == FabricKind::on_chip) continue;
    for (const auto& [member, value] : calibrations.overlap) catalogue.devices[i].efficiency.*member = value;
  }
}

}  // namespace espalier::cluster
