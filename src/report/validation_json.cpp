// SPDX-License-Identifier: Apache-2.0
// Writes the validation document, schema espalier.validation/1.
#include <cmath>

#include "base/document.h"
#include "base/invariant.h"
#include "report/validation_text.h"

namespace espalier::report {
namespace {

void write_errors(JsonWriter& w, std::string_view key, const ErrorSummary& s, bool with_accuracy) {
  w.key(key).compact_next().begin_object();
  w.key("n").value(s.n);
  if (with_accuracy) w.key("mean_accuracy").value(s.mean_accuracy).key("median_accuracy").value(s.median_accuracy);
  w.key("mape").value(s.mape);
  w.key("median_ape").value(s.median_ape);
  w.key("p90_ape").value(s.p90_ape);
  w.key("bias").value(s.bias);
  w.end_object();
}

void write_summary(JsonWriter& w, const ValidationSummary& s) {
  write_errors(w, "time", s.time, true);
  write_errors(w, "memory", s.memory, false);
  w.key("feasibility").compact_next().begin_object();
  w.key("n").value(s.feasibility.n());
  w.key("true_fit").value(s.feasibility.true_fit);
  w.key("false_fit").value(s.feasibility.false_fit);
  w.key("true_oom").value(s.feasibility.true_oom);
  w.key("false_oom").value(s.feasibility.false_oom);
  w.key("accuracy").value(s.feasibility.accuracy());
  w.end_object();
  w.key("ranking").compact_next().begin_object();
  w.key("groups").value(s.ranking.groups);
  w.key("kendall_tau").value(s.ranking.kendall_tau);
  w.key("mean_top1_regret").value(s.ranking.mean_top1_regret);
  w.key("max_top1_regret").value(s.ranking.max_top1_regret);
  w.end_object();
}

void write_result(JsonWriter& w, const RunResult& r) {
  w.compact_next().begin_object();
  w.key("id").value(r.id);
  w.key("source").value(r.source);
  w.key("label").value(r.label);
  w.key("engine").value(r.engine);
  w.key("predicted_s").seconds(std::llround(*r.predicted_s * 1e9));
  if (r.measured_s) {
    w.key("measured_s").value(*r.measured_s);
    w.key("error").value(r.time_error());
  }
  if (r.measured_bytes) {
    w.key("predicted_peak_bytes").value(*r.predicted_bytes);
    w.key("measured_peak_bytes").value(*r.measured_bytes);
    w.key("memory_error").value(r.memory_error());
  }
  if (r.measured_fits) {
    w.key("predicted_fits").value(*r.predicted_fits);
    w.key("measured_fits").value(*r.measured_fits);
  }
  w.key("calibration").value(r.calibration);
  w.key("in_calibration").value(r.in_calibration);
  write_defaults(w, r.defaults);
  w.end_object();
}

}  // namespace

void write_defaults(JsonWriter& w, const std::vector<UsedDefault>& defaults) {
  w.key("defaults").begin_array();
  for (const UsedDefault& d : defaults) {
    w.compact_next().begin_object();
    w.key("field").value(d.field);
    w.key("value").value(d.value);
    w.key("source").value(d.source);
    w.end_object();
  }
  w.end_array();
}
}  // namespace espalier::report

namespace espalier {

std::string to_json(const Validation& v) {
  ESPALIER_CHECK(v.all.evaluated == static_cast<std::int64_t>(v.results.size()));
  using namespace report;
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.validation/1");
  w.key("records").value(v.all.records);
  w.key("evaluated").value(v.all.evaluated);
  w.key("skipped").begin_object();
  for (const auto& [reason, n] : v.skipped) w.key(reason).value(n);
  w.end_object();
  write_summary(w, v.all);
  w.key("by_source").begin_object();
  for (const auto& [source, s] : v.by_source) {
    w.key(source).begin_object();
    w.key("records").value(s.records);
    w.key("evaluated").value(s.evaluated);
    write_summary(w, s);
    w.end_object();
  }
  w.end_object();
  w.key("results").begin_array();
  for (const RunResult& r : v.results) write_result(w, r);
  w.end_array();
  w.key("skipped_records").begin_array();
  for (const SkippedRun& s : v.skipped_runs) {
    w.compact_next().begin_object();
    w.key("id").value(s.id);
    w.key("reason").value(s.reason);
    w.key("detail").value(s.detail);
    w.end_object();
  }
  w.end_array();
  w.key("unreadable").begin_array();
  for (const Error& e : v.unreadable) {
    w.compact_next().begin_object();
    w.key("where").value(e.where);
    w.key("found").value(e.found);
    w.key("expected").value(e.expected);
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier
