// SPDX-License-Identifier: Apache-2.0
// A calibration as a file, for scripts, and for people.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/document.h"
#include "calibrate/user_calibration.h"
#include "planner/brief_text.h"
#include "planner/text_layout.h"

namespace espalier::calibrate {
namespace {

using base::JsonWriter;
using text::cat;

constexpr std::size_t kMaxListed = 1000;

/// Six significant digits: more than any of these figures holds.
std::string number(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.6g", value);
  return buffer.data();
}
double rounded(double value) { return std::strtod(number(value).c_str(), nullptr); }

std::string quoted(std::string_view text) {
  JsonWriter w;
  w.value(text);
  return w.text();
}

/// Share of the prior's variance that the data took away.
double weight_of_data(const ParameterFit& p) { return std::max(0.0, 1 - p.sigma * p.sigma / (p.prior_sigma * p.prior_sigma)); }

// ---- the file ----------------------------------------------------------------------------------------------------------------

std::string coefficient_lines(const UserFit& fit) {
  std::string out = "coefficients:\n";
  for (const ParameterFit& p : fit.parameters) {
    const std::string value = cat("  ", p.name, ": ", number(p.value));
    out +=
        cat(text::pad_right(value, 34), " # shipped ", number(p.prior), p.identified ? "" : "; not determined by the runs", "\n");
  }
  return out;
}

std::string fabric_lines(const UserFabric& fabric) {
  if (fabric.levels.empty()) return "";
  std::string out = "fabric:\n";
  for (const LevelFit& level : fabric.levels) {
    out += cat("  - {level: ", quoted(level.name), ", where: ", level.inside_node ? "node" : "network");
    for (const LevelFit::Field& f : level.fields)
      if (f.identified) out += cat(", ", f.field->name, ": ", number(f.value));
    out += "}\n";
  }
  return out;
}

std::string run_lines(const UserFit& fit) {
  std::string out = "  measured:\n";
  for (std::size_t i = 0; i < std::min(kMaxListed, fit.runs.size()); ++i) {
    const RunFit& r = fit.runs[i];
    out += cat("    - {id: ", quoted(r.id), ", configuration: ", quoted(r.label), ", devices: ", std::to_string(r.devices),
               ", measured_s: ", number(r.measured_s), ", shipped_s: ", number(r.before_s),
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
               "\n  cross_validation: ", quoted(f.cross_validation), "\n  median_error_before: ", number(f.before.median_ape),
               "\n  mean_error_before: ", number(f.before.mape), "\n");
    if (f.held_out.n > 0)
      out +=
          cat("  median_error_after: ", number(f.held_out.median_ape), "\n  mean_error_after: ", number(f.held_out.mape), "\n");
    out += cat("  median_error_in_sample: ", number(f.fitted.median_ape), "\n  interval_basis: ", quoted(f.interval_basis), "\n");
    out += parameter_lines(f) + run_lines(f);
  }
  if (c.fabric) out += table_lines(*c.fabric);
  out += "  inputs:\n";
  for (const UserInput& i : c.runs.inputs)
    out += cat("    - {file: ", quoted(i.file), ", hash: \"", i.hash, "\", kind: ", quoted(i.kind), "}\n");
  return out;
}

// ---- for scripts -------------------------------------------------------------------------------------------------------------

void write_summary(JsonWriter& w, std::string_view key, const planner::ErrorSummary& s) {
  w.key(key);
  if (s.n == 0) {
    w.null();
    return;
  }
  w.compact_next().begin_object();
  w.key("n").value(s.n).key("mape").value(rounded(s.mape)).key("median_ape").value(rounded(s.median_ape));
  w.key("p90_ape").value(rounded(s.p90_ape)).key("bias").value(rounded(s.bias)).end_object();
}

void write_fit(JsonWriter& w, const UserFit& fit) {
  w.key("configurations").value(fit.configurations).key("cross_validation").value(fit.cross_validation);
  write_summary(w, "error_before", fit.before);
  write_summary(w, "error_after", fit.held_out);
  write_summary(w, "error_in_sample", fit.fitted);
  w.key("interval").compact_next().begin_object();
  w.key("level").value(fit.level).key("low").value(rounded(fit.low)).key("high").value(rounded(fit.high));
  w.key("basis").value(fit.interval_basis).end_object();
  w.key("coefficients").begin_array();
  for (const ParameterFit& p : fit.parameters) {
    w.compact_next().begin_object().key("name").value(p.name).key("shipped").value(rounded(p.prior));
    w.key("value").value(rounded(p.value)).key("prior_sigma").value(rounded(p.prior_sigma)).key("sigma").value(rounded(p.sigma));
    w.key("identified").value(p.identified).key("weight_of_data").value(rounded(weight_of_data(p)));
    w.key("prior_widths").value(rounded(p.widths())).end_object();
  }
  w.end_array().key("runs").begin_array();
  for (const RunFit& r : fit.runs) {
    w.compact_next().begin_object().key("id").value(r.id).key("configuration").value(r.label).key("devices").value(r.devices);
    w.key("measured_s").value(rounded(r.measured_s)).key("shipped_s").value(rounded(r.before_s)).key("held_out_s");
    if (r.held_out_s > 0)
      w.value(rounded(r.held_out_s));
    else
      w.null();
    w.key("fitted_s").value(rounded(r.fitted_s)).end_object();
  }
  w.end_array();
}

void write_fabric(JsonWriter& w, const UserFabric& fabric) {
  w.key("fabric").begin_array();
  for (const LevelFit& level : fabric.levels) {
    for (const LevelFit::Field& f : level.fields) {
      w.compact_next().begin_object().key("level").value(level.name).key("where").value(level.inside_node ? "node" : "network");
      w.key("name").value(f.field->name).key("shipped").value(rounded(f.prior)).key("value").value(rounded(f.value));
      w.key("prior_sigma")
          .value(f.field->sigma)
          .key("sigma")
          .value(rounded(f.sigma))
          .key("identified")
          .value(f.identified)
          .end_object();
    }
  }
  w.end_array().key("collectives").begin_array();
  for (const TableFit& t : fabric.tables) {
    w.compact_next()
        .begin_object()
        .key("test")
        .value(runlog::to_string(t.test))
        .key("ranks")
        .value(t.ranks)
        .key("nodes")
        .value(t.nodes);
    w.key("rows")
        .value(t.rows)
        .key("median_ape_before")
        .value(rounded(t.before))
        .key("median_ape_after")
        .value(rounded(t.held_out));
    w.end_object();
  }
  w.end_array();
}

std::vector<std::string> warnings_of(const UserCalibration& c) {
  std::vector<std::string> out;
  if (c.fit) out.insert(out.end(), c.fit->warnings.begin(), c.fit->warnings.end());
  if (c.fabric) out.insert(out.end(), c.fabric->warnings.begin(), c.fabric->warnings.end());
  return out;
}

// ---- for people --------------------------------------------------------------------------------------------------------------

std::string head(const UserCalibration& c) {
  if (!c.fit) return cat("fabric of ", c.device, "\n");
  const UserFit& f = *c.fit;
  const std::string held = f.held_out.n > 0 ? cat(text::percent(f.held_out.median_ape), " median, ",
                                                  text::percent(f.held_out.mape), " mean (", f.cross_validation, ")")
                                            : cat("not known, cross-validation ", f.cross_validation);
  return cat(c.device, ", engine ", c.engine, ": ", std::to_string(f.runs.size()), " runs in ", std::to_string(f.configurations),
             " configurations, ", std::to_string(f.devices_low), " to ", std::to_string(f.devices_high), " devices\n",
             "  error as shipped   ", text::percent(f.before.median_ape), " median, ", text::percent(f.before.mape), " mean\n",
             "  error adapted      ", held, "; ", text::percent(f.fitted.median_ape), " in sample\n", "  interval           × ",
             text::fixed(f.low, 3), " … × ", text::fixed(f.high, 3), " with ", text::percent(f.level), ": ", f.interval_basis,
             "\n");
}

std::string spread(const ParameterFit& p, double sigma) {
  return p.additive ? cat("± ", text::fixed(sigma, 4)) : cat("± ", text::percent(sigma));
}

std::string coefficient_table(const UserFit& fit) {
  std::vector<std::vector<std::string>> rows{{"coefficient", "shipped", "prior", "adapted", "posterior", "by data"}};
  for (const ParameterFit& p : fit.parameters)
    rows.push_back({p.name, text::fixed(p.prior, p.additive ? 4 : 3), spread(p, p.prior_sigma),
                    text::fixed(p.value, p.additive ? 4 : 3), p.identified ? spread(p, p.sigma) : "–",
                    p.identified ? text::percent(weight_of_data(p)) : "not determined"});
  return cat("\n", text::table(rows));
}

std::string run_table(const UserFit& fit) {
  std::vector<std::vector<std::string>> rows{{"run", "devices", "measured", "shipped", "held out", "fitted", "configuration"}};
  const auto error = [](double predicted, double measured) {
    return predicted > 0 ? text::percent(predicted / measured - 1) : "–";
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(40, fit.runs.size()); ++i) {
    const RunFit& r = fit.runs[i];
    rows.push_back({r.id, std::to_string(r.devices), text::seconds(std::llround(r.measured_s * 1e9)),
                    error(r.before_s, r.measured_s), error(r.held_out_s, r.measured_s), error(r.fitted_s, r.measured_s),
                    r.label});
  }
  return cat("\n", text::table(rows, {6}));
}

std::string fabric_tables(const UserFabric& fabric) {
  std::vector<std::vector<std::string>> levels{{"fabric", "level", "shipped", "prior", "adapted", "posterior"}};
  for (const LevelFit& level : fabric.levels) {
    for (const LevelFit::Field& f : level.fields)
      levels.push_back({cat(level.name, " ", f.field->name), level.inside_node ? "node" : "network", text::fixed(f.prior, 3),
                        cat("± ", text::percent(f.field->sigma)), text::fixed(f.value, 3),
                        f.identified ? cat("± ", text::percent(f.sigma)) : "not determined"});
  }
  std::vector<std::vector<std::string>> tables{
      {"collective", "ranks", "nodes", "rows ≥ 1 MiB", "error as shipped", "adapted, rows held out"}};
  for (const TableFit& t : fabric.tables)
    tables.push_back({std::string(runlog::to_string(t.test)), std::to_string(t.ranks), std::to_string(t.nodes),
                      std::to_string(t.rows), text::percent(t.before), text::percent(t.held_out)});
  return cat("\n", text::table(levels, {1}), "\n", text::table(tables));
}

}  // namespace

std::string to_yaml(const UserCalibration& c) {
  std::string out = cat("# Calibration of Espalier from own measurements, written by `espalier calibrate`. For: ", c.device,
                        c.engine.empty() ? "" : cat(", engine ", c.engine),
                        ".\n# Use: espalier plan JOB.yaml --calibration FILE, or `calibration: FILE` in the job.\n",
                        "schema: espalier.calibration/1\ndevice: ", quoted(c.device), "\n");
  if (c.fit) out += cat("engine: ", c.engine, "\n", coefficient_lines(*c.fit));
  if (c.fabric) out += fabric_lines(*c.fabric);
  if (c.fit)
    out += cat("interval: {level: ", number(c.fit->level), ", low: ", number(c.fit->low), ", high: ", number(c.fit->high), "}\n");
  return out + evidence_lines(c);
}

std::string to_json(const UserCalibration& c) {
  JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.calibrate/1").key("device").value(c.device).key("engine").value(c.engine);
  if (c.fit) write_fit(w, *c.fit);
  if (c.fabric) write_fabric(w, *c.fabric);
  w.key("skipped").begin_array();
  for (const SkippedRun& s : c.runs.skipped)
    w.compact_next()
        .begin_object()
        .key("id")
        .value(s.id)
        .key("reason")
        .value(s.reason)
        .key("detail")
        .value(s.detail)
        .end_object();
  w.end_array().key("inputs").begin_array();
  for (const UserInput& i : c.runs.inputs)
    w.compact_next().begin_object().key("file").value(i.file).key("hash").value(i.hash).key("kind").value(i.kind).end_object();
  w.end_array().key("notes").begin_array();
  for (const std::string& note : c.runs.notes) w.value(note);
  w.end_array().key("warnings").begin_array();
  for (const std::string& warning : warnings_of(c)) w.value(warning);
  w.end_array().key("file").value(c.file).end_object();
  return w.text();
}

std::string to_text(const UserCalibration& c, std::size_t width) {
  std::string out = head(c);
  if (c.fit) out += coefficient_table(*c.fit);
  if (c.fabric) out += fabric_tables(*c.fabric);
  if (c.fit) out += run_table(*c.fit);
  std::vector<std::string> lines = c.runs.notes;
  for (const SkippedRun& s : c.runs.skipped)
    lines.push_back(cat("skipped ", s.id, ": ", s.reason, s.detail.empty() ? "" : cat(" (", s.detail, ")")));
  for (const std::string& warning : warnings_of(c)) lines.push_back(cat("warning: ", warning));
  if (!lines.empty()) out += "\n";
  for (const std::string& line : lines) out += cat("  - ", text::wrap(line, 116, "    "), "\n");
  return text::lay_out(out, width);
}

}  // namespace espalier::calibrate
