// SPDX-License-Identifier: Apache-2.0
#include "report/calibration_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/document.h"
#include "base/format.h"
#include "report/brief_text.h"
#include "report/text_layout.h"

namespace espalier::report {
namespace {

using namespace calibrate;

/// Rounds to six significant digits, more than any of these figures holds.
double rounded(double value) { return std::strtod(base::six_digits(value).c_str(), nullptr); }

/// Returns the share of the prior's variance that the data removed.
double weight_of_data(const ParameterFit& p) { return std::max(0.0, 1 - p.sigma * p.sigma / (p.prior_sigma * p.prior_sigma)); }

// ---- for scripts --------------------------------------------------------------------------------------------------

void write_summary(JsonWriter& w, std::string_view key, const ErrorSummary& s) {
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

void write_memory(JsonWriter& w, const MemoryFit& m) {
  w.key("memory").compact_next().begin_object();
  w.key("allocator_reserve_shipped").value(rounded(m.shipped)).key("allocator_reserve").value(rounded(m.reserve));
  w.key("reserved_runs").value(m.reserved_runs).key("error_before").value(rounded(m.before));
  w.key("error_after").value(rounded(m.after)).key("allocated_runs").value(m.allocated_runs);
  w.key("error_allocated").value(rounded(m.allocated)).end_object();
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

// ---- for people ---------------------------------------------------------------------------------------------------

std::string head(const UserCalibration& c) {
  if (!c.fit) return cat("fabric of ", c.device, "\n");
  const UserFit& f = *c.fit;
  const std::string held = f.held_out.n > 0 ? cat(base::percent(f.held_out.median_ape), " median, ",
                                                  base::percent(f.held_out.mape), " mean (", f.cross_validation, ")")
                                            : cat("unknown, cross-validation ", f.cross_validation);
  return cat(c.device, ", engine ", c.engine, ": ", std::to_string(f.runs.size()), " runs in ", std::to_string(f.configurations),
             " configurations, ", std::to_string(f.devices_low), " to ", std::to_string(f.devices_high), " devices\n",
             "  error as shipped   ", base::percent(f.before.median_ape), " median, ", base::percent(f.before.mape), " mean\n",
             "  error adapted      ", held, "; ", base::percent(f.fitted.median_ape), " in sample\n", "  interval           × ",
             base::fixed(f.low, 3), " … × ", base::fixed(f.high, 3), " with ", base::percent(f.level), ": ", f.interval_basis,
             "\n");
}

std::string spread(const ParameterFit& p, double sigma) {
  return p.additive ? cat("± ", base::fixed(sigma, 4)) : cat("± ", base::percent(sigma));
}

std::string coefficient_table(const UserFit& fit) {
  std::vector<std::vector<std::string>> rows{{"coefficient", "shipped", "prior", "adapted", "posterior", "by data"}};
  for (const ParameterFit& p : fit.parameters)
    rows.push_back({p.name, base::fixed(p.prior, p.additive ? 4 : 3), spread(p, p.prior_sigma),
                    base::fixed(p.value, p.additive ? 4 : 3), p.identified ? spread(p, p.sigma) : "–",
                    p.identified ? base::percent(weight_of_data(p)) : "not determined"});
  return cat("\n", table(rows));
}

std::string memory_lines(const MemoryFit& m) {
  std::string out = "\n";
  if (m.reserved_runs > 0)
    out += cat("peak memory reserved by the allocator (", std::to_string(m.reserved_runs), " runs): reserve ",
               base::percent(m.shipped), " shipped, ", base::percent(m.reserve), " adapted; error ", base::percent(m.before),
               " before, ", base::percent(m.after), " after\n");
  if (m.allocated_runs > 0)
    out += cat("peak memory of tensors (", std::to_string(m.allocated_runs), " runs): error ", base::percent(m.allocated),
               "; not fitted\n");
  return out;
}

std::string run_table(const UserFit& fit) {
  std::vector<std::vector<std::string>> rows{{"run", "devices", "measured", "shipped", "held out", "fitted", "configuration"}};
  const auto error = [](double predicted, double measured) {
    return predicted > 0 ? base::percent(predicted / measured - 1) : "–";
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(40, fit.runs.size()); ++i) {
    const RunFit& r = fit.runs[i];
    rows.push_back({r.id, std::to_string(r.devices), base::seconds(std::llround(r.measured_s * 1e9)),
                    error(r.before_s, r.measured_s), error(r.held_out_s, r.measured_s), error(r.fitted_s, r.measured_s),
                    r.label});
  }
  return cat("\n", table(rows, {6}));
}

std::string fabric_tables(const UserFabric& fabric) {
  std::vector<std::vector<std::string>> levels{{"fabric", "level", "shipped", "prior", "adapted", "posterior"}};
  for (const LevelFit& level : fabric.levels) {
    for (const LevelFit::Field& f : level.fields)
      levels.push_back({cat(level.name, " ", f.field->name), level.inside_node ? "node" : "network", base::fixed(f.prior, 3),
                        cat("± ", base::percent(f.field->sigma)), base::fixed(f.value, 3),
                        f.identified ? cat("± ", base::percent(f.sigma)) : "not determined"});
  }
  std::vector<std::vector<std::string>> tables{
      {"collective", "ranks", "nodes", "rows ≥ 1 MiB", "error as shipped", "adapted, rows held out"}};
  for (const TableFit& t : fabric.tables)
    tables.push_back({std::string(runlog::to_string(t.test)), std::to_string(t.ranks), std::to_string(t.nodes),
                      std::to_string(t.rows), base::percent(t.before), base::percent(t.held_out)});
  return cat("\n", table(levels, {1}), "\n", table(tables));
}

}  // namespace

std::string to_json(const UserCalibration& c, const std::string& file) {
  JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.calibrate/1").key("device").value(c.device).key("engine").value(c.engine);
  if (c.fit) write_fit(w, *c.fit);
  if (c.memory) write_memory(w, *c.memory);
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
  w.end_array().key("file").value(file).end_object();
  return w.text();
}

std::string to_text(const UserCalibration& c, std::size_t width) {
  std::string out = head(c);
  if (c.fit) out += coefficient_table(*c.fit);
  if (c.memory) out += memory_lines(*c.memory);
  if (c.fabric) out += fabric_tables(*c.fabric);
  if (c.fit) out += run_table(*c.fit);
  std::vector<std::string> lines = c.runs.notes;
  for (const SkippedRun& s : c.runs.skipped)
    lines.push_back(cat("skipped ", s.id, ": ", s.reason, s.detail.empty() ? "" : cat(" (", s.detail, ")")));
  for (const std::string& warning : warnings_of(c)) lines.push_back(cat("warning: ", warning));
  if (!lines.empty()) out += "\n";
  for (const std::string& line : lines) out += cat("  - ", wrap(line, 116, "    "), "\n");
  return report::lay_out(out, width);
}

}  // namespace espalier::report

namespace espalier {

std::string to_text(const CalibrationResult& calibration, std::size_t width) {
  return calibration.details ? report::to_text(*calibration.details, width) : "";
}

std::string to_json(const CalibrationResult& calibration) {
  return calibration.details ? report::to_json(*calibration.details, calibration.file) : "{}";
}

}  // namespace espalier
