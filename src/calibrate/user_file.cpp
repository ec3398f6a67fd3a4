// SPDX-License-Identifier: Apache-2.0
// Writes a calibration as the file that jobs name. job/calibration_file.h reads it back.
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "calibrate/user_calibration.h"

namespace espalier::calibrate {
namespace {

constexpr std::size_t kMaxListed = 1000;

/// Writes six significant digits, more than any of these figures holds.
std::string number(double value) { return base::six_digits(value); }

std::string coefficient_lines(const UserFit& fit) {
  std::string out = "coefficients:\n";
  for (const ParameterFit& p : fit.parameters) {
    const std::string value = cat("  ", p.name, ": ", number(p.value));
    out +=
        cat(base::pad_right(value, 34), " # shipped ", number(p.prior), p.identified ? "" : "; not determined by the runs", "\n");
  }
  return out;
}

std::string run_lines(const UserFit& fit) {
  std::string out = "  measured:\n";
  for (std::size_t i = 0; i < std::min(kMaxListed, fit.runs.size()); ++i) {
    const RunFit& r = fit.runs[i];
    out +=
        cat("    - {id: ", base::json_string(r.id), ", configuration: ", base::json_string(r.label),
            ", devices: ", std::to_string(r.devices), ", measured_s: ", number(r.measured_s), ", shipped_s: ", number(r.before_s),
            ", held_out_s: ", r.held_out_s > 0 ? number(r.held_out_s) : "null", ", fitted_s: ", number(r.fitted_s), "}\n");
  }
  return out;
}

std::string parameter_lines(const UserFit& fit) {
  std::string out = "  parameters:  # sigma: of the logarithm, for additive ones in their own unit\n";
  for (const ParameterFit& p : fit.parameters)
    out += cat("    - {name: ", p.name, ", shipped: ", number(p.prior), ", value: ", number(p.value),
               ", prior_sigma: ", number(p.prior_sigma), ", sigma: ", number(p.sigma),
               ", additive: ", p.additive ? "true" : "false", ", identified: ", p.identified ? "true" : "false", "}\n");
  return out;
}

std::string table_lines(const UserFabric& fabric) {
  std::string out = "  collectives:\n";
  for (const TableFit& t : fabric.tables)
    out += cat("    - {test: ", runlog::to_string(t.test), ", ranks: ", std::to_string(t.ranks),
               ", nodes: ", std::to_string(t.nodes), ", rows: ", std::to_string(t.rows),
               ", median_error_before: ", number(t.before), ", median_error_after: ", number(t.held_out), "}\n");
  return out;
}

std::string evidence_lines(const UserCalibration& c) {
  std::string out = "evidence:\n";
  if (c.fit) {
    const UserFit& f = *c.fit;
    out += cat("  runs: ", std::to_string(f.runs.size()), "\n  configurations: ", std::to_string(f.configurations),
               "\n  devices_low: ", std::to_string(f.devices_low), "\n  devices_high: ", std::to_string(f.devices_high),
               "\n  cross_validation: ", base::json_string(f.cross_validation),
               "\n  median_error_before: ", number(f.before.median_ape), "\n  mean_error_before: ", number(f.before.mape), "\n");
    if (f.held_out.n > 0)
      out +=
          cat("  median_error_after: ", number(f.held_out.median_ape), "\n  mean_error_after: ", number(f.held_out.mape), "\n");
    out += cat("  median_error_in_sample: ", number(f.fitted.median_ape),
               "\n  interval_basis: ", base::json_string(f.interval_basis), "\n");
    out += parameter_lines(f) + run_lines(f);
  }
  if (c.memory)
    out += cat("  memory: {reserved_runs: ", std::to_string(c.memory->reserved_runs),
               ", allocated_runs: ", std::to_string(c.memory->allocated_runs), ", error_before: ", number(c.memory->before),
               ", error_after: ", number(c.memory->after), ", error_allocated: ", number(c.memory->allocated), "}\n");
  if (c.fabric) out += table_lines(*c.fabric);
  out += "  inputs:\n";
  for (const UserInput& i : c.runs.inputs)
    out += cat("    - {file: ", base::json_string(i.file), ", hash: \"", i.hash, "\", kind: ", base::json_string(i.kind), "}\n");
  return out;
}

}  // namespace

std::string fabric_lines(const UserFabric& fabric) {
  if (fabric.levels.empty()) return "";
  std::string out = "fabric:\n";
  for (const LevelFit& level : fabric.levels) {
    out += cat("  - {level: ", base::json_string(level.name), ", where: ", level.inside_node ? "node" : "network");
    for (const LevelFit::Field& f : level.fields)
      if (f.identified) out += cat(", ", f.field->name, ": ", number(f.value));
    if (level.direct_bytes > 0) out += cat(", direct_bytes: ", number(level.direct_bytes));
    out += "}\n";
  }
  return out;
}

std::string to_yaml(const UserCalibration& c) {
  std::string out = cat("# Calibration of Espalier from your measurements, written by `espalier calibrate`. For: ", c.device,
                        c.engine.empty() ? "" : cat(", engine ", c.engine),
                        ".\n# Use: espalier plan JOB.yaml --calibration FILE, or `calibration: FILE` in the job.\n",
                        "schema: espalier.calibration/1\ndevice: ", base::json_string(c.device), "\n");
  if (c.fit) out += cat("engine: ", c.engine, "\n", coefficient_lines(*c.fit));
  if (c.memory && c.memory->reserved_runs > 0)
    out += cat("memory: {allocator_reserve: ", number(c.memory->reserve), "}  # shipped ", number(c.memory->shipped), "\n");
  if (c.fabric) out += fabric_lines(*c.fabric);
  if (c.fit)
    out += cat("interval: {level: ", number(c.fit->level), ", low: ", number(c.fit->low), ", high: ", number(c.fit->high), "}\n");
  return out + evidence_lines(c);
}

}  // namespace espalier::calibrate
