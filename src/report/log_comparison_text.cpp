// SPDX-License-Identifier: Apache-2.0
// Writes the comparison of a log with its plan, for people and programs.
#include <cmath>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "espalier/log_comparison.h"
#include "espalier/text.h"
#include "report/brief_text.h"

namespace espalier {
namespace {

using namespace report;

std::int64_t ns(double s) { return std::llround(s * 1e9); }

std::string figures(const LogComparison& c) {
  std::vector<std::vector<std::string>> rows{{"", "predicted", "measured", ""}};
  const auto row = [&rows](const char* name, std::string predicted, std::string measured, double ratio) {
    rows.push_back({name, std::move(predicted), std::move(measured), cat(ratio >= 1 ? "+" : "", percent(ratio - 1))});
  };
  const double slower = c.measured_s / (static_cast<double>(c.predicted.iteration_ns) * 1e-9);
  row("step", seconds(c.predicted.iteration_ns), seconds(ns(c.measured_s)), slower);
  row("tokens/s/GPU", base::count(std::round(c.predicted.tokens_per_s_per_device)),
      base::count(std::round(c.tokens_per_s_per_device)), 1 / slower);
  row("TFLOP/s/GPU", base::fixed(c.predicted.model_tflops_per_device, 1), base::fixed(c.model_tflops_per_device, 1), 1 / slower);
  row("MFU", percent(c.predicted.mfu), percent(c.mfu), 1 / slower);
  if (c.peak_memory_bytes)
    row("peak memory", base::gib(c.predicted.peak_memory_bytes), base::gib(*c.peak_memory_bytes),
        static_cast<double>(*c.peak_memory_bytes) / static_cast<double>(c.predicted.peak_memory_bytes));
  return table(rows);
}

std::string published_table(const LogComparison& c) {
  if (c.published.empty()) return "No published runs of a similar model on these GPUs are known\n";
  std::vector<std::vector<std::string>> rows{
      {"published", "GPU", "GPUs", "sequence", "precision", "tokens/s/GPU", "TFLOP/s/GPU", "source"}};
  for (const PublishedRun& run : c.published)
    rows.push_back({run.model, run.device, std::to_string(run.devices), std::to_string(run.sequence), run.precision,
                    base::count(std::round(run.tokens_per_s_per_device)), base::fixed(run.tflops_per_device(), 0), run.source});
  return cat(table(rows, {0, 1, 4, 7}), "TFLOP/s of published runs: 6 · active parameters · tokens/s, without attention\n");
}

}  // namespace

std::string to_text(const LogComparison& c, std::size_t width) {
  std::string out = cat(c.format, " log, median of ", c.steps, " lines, ", c.warm_up, " skipped at the beginning");
  out += c.arguments > 0 ? cat("; ", c.arguments, " of its arguments match the plan\n\n")
                         : "; it prints no arguments to compare with the plan\n\n";
  out += figures(c) + "\n";
  for (const std::string& finding : c.findings) out += finding + "\n";
  return lay_out(cat(out, "\n", published_table(c)), width);
}

std::string to_json(const LogComparison& c) {
  base::JsonWriter w;
  w.begin_object().key("schema").value("espalier.log-comparison/1").key("format").value(c.format);
  w.key("steps").value(c.steps).key("warm_up").value(c.warm_up).key("arguments_compared").value(c.arguments);
  w.key("predicted_s").seconds(c.predicted.iteration_ns).key("measured_s").value(c.measured_s);
  w.key("interval_s")
      .compact_next()
      .begin_array()
      .value(c.predicted.confidence.low_s)
      .value(c.predicted.confidence.high_s)
      .end_array();
  w.key("spread").value(c.spread).key("drift").value(c.drift);
  w.key("tokens_per_s_per_device")
      .value(c.tokens_per_s_per_device)
      .key("model_tflops_per_device")
      .value(c.model_tflops_per_device);
  w.key("mfu").value(c.mfu).key("predicted_peak_memory_bytes").value(c.predicted.peak_memory_bytes);
  if (c.peak_memory_bytes) w.key("peak_memory_bytes").value(*c.peak_memory_bytes);
  w.key("findings").begin_array();
  for (const std::string& finding : c.findings) w.value(finding);
  w.end_array().key("published").begin_array();
  for (const PublishedRun& run : c.published) {
    w.compact_next()
        .begin_object()
        .key("model")
        .value(run.model)
        .key("device")
        .value(run.device)
        .key("devices")
        .value(run.devices);
    w.key("sequence")
        .value(run.sequence)
        .key("precision")
        .value(run.precision)
        .key("tokens_per_s_per_device")
        .value(run.tokens_per_s_per_device);
    w.key("tflops_per_device")
        .value(run.tflops_per_device())
        .key("source")
        .value(run.source)
        .key("record")
        .value(run.record)
        .end_object();
  }
  w.end_array().end_object();
  return w.text() + "\n";
}

}  // namespace espalier
