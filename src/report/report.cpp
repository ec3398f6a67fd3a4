// SPDX-License-Identifier: Apache-2.0
// Writes the data of the page, and the page.
#include "espalier/report.h"

#include <algorithm>
#include <optional>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "data/report_page.h"
#include "espalier/explain.h"
#include "espalier/step_comparison.h"
#include "planner/prediction.h"
#include "report/page_parts.h"
#include "report/page_searched.h"
#include "report/page_sweep.h"
#include "report/page_timeline.h"
#include "report/plan_words.h"

namespace espalier::report {
namespace {

/// Simulates with the steps inside instructions, where they are available.
Result<SimulatedPlan> with_steps(const Job& job, const Plan& plan) {
  auto detailed = simulate_with_timeline(job, plan, TimelineDetail::steps);
  return detailed ? std::move(detailed) : simulate_with_timeline(job, plan);
}

/// Adds plans to a result that was read; of its alternatives it only has the configurations.
PlannerResult with_plans(const Job& job, PlannerResult result) {
  const auto engine = planner::engine_of(job);
  for (Alternative& a : result.alternatives)
    if (engine && !a.plan && a.configuration)
      a.plan = planner::document_of(job, **engine, a.configuration->first, a.configuration->second);
  return result;
}

void write_sentences(base::JsonWriter& w, std::string_view key, const std::vector<std::string>& sentences) {
  w.key(key).begin_array();
  for (const std::string& sentence : sentences) w.value(sentence);
  w.end_array();
}

void write_tables(base::JsonWriter& w, const Job& job, const PlannerResult& result, const StepComparison* measured,
                  const PageOptions& options) {
  w.key("tables").begin_array();
  for (const PageTable& table :
       {time_table(result.prediction, planner::host_work_of(result.plan)), memory_table(result.prediction), why_not_table(result),
        stage_table(job, result), layer_table_of(job, result.plan), pruning_table(result.search), device_table(job),
        fabric_table(job.cluster), link_table(job, result), what_if_table(job, result)})
    write(w, table);
  if (options.sweep != nullptr) write(w, sweep_table(*options.sweep, options.sweep_point));
  if (measured != nullptr) write(w, measured_table(*measured));
  w.end_array();
}

/// Writes everything but the timelines.
void write_head(base::JsonWriter& w, const Job& job, const PlannerResult& result, const StepComparison* measured,
                const PageOptions& options) {
  w.key("schema").value("espalier.report/1");
  w.key("label").value(result.plan.label());
  w.key("job").value(job_line(result.plan));
  w.key("certificate").value(certificate_text(result.search));
  w.key("figures").begin_array();
  for (const Figure& figure : page_figures(job, result)) write(w, figure);
  w.end_array();
  write_sentences(w, "bottlenecks", bottlenecks(result));
  write_sentences(w, "reasons", result.reasons);
  write_sentences(w, "notes", result.notes);
  write_tables(w, job, result, measured, options);
  w.key("searched");
  write_searched(w, result);
  w.key("memory_limit_bytes").value(result.prediction.memory_limit_bytes);
  w.key("result").raw(to_json(result, false));
}

/// Writes `<` as \u003c, which is the same to a JSON reader. No text can then close the script element that holds it,
/// or open a comment in it.
std::string inside_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string inside_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

Result<std::string> page_data(const Job& job, const PlannerResult& given, const MeasuredStep* measured,
                              const PageOptions& options) {
  PlannerResult result = with_plans(job, given);
  if (result.changes.empty()) simulate_changes(job, result);
  const auto again = with_steps(job, result.plan);
  if (!again) return again.error();
  ESPALIER_CHECK(again->timeline.iteration_ns ==
                 result.prediction.iteration_ns);  // the caller simulates results of other builds again
  std::optional<StepComparison> comparison;
  if (measured != nullptr) {
    auto compared = compare_step(job, result.plan, *measured);
    if (!compared) return compared.error();
    comparison = std::move(*compared);
  }
  base::JsonWriter w(0);
  w.begin_object();
  write_head(w, job, result, comparison ? &*comparison : nullptr, options);
  const std::size_t taken = std::min(options.most_bytes, w.text().size());
  const std::size_t room = (options.most_bytes - taken) / (comparison ? 2 : 1);
  w.key("timeline");
  write_timeline(w, again->timeline, shown_part(again->timeline, room));
  if (comparison) {
    w.key("measured");
    write_timeline(w, comparison->measured, shown_part(comparison->measured, room));
  }
  w.end_object();
  return w.text();
}

std::string page(std::string_view data, std::string_view text) {
  constexpr std::string_view kText = "@@espalier-text@@", kData = "@@espalier-data@@";
  const std::string_view page = embedded::report_page;
  const std::size_t text_at = page.find(kText), data_at = page.find(kData);
  ESPALIER_CHECK(text_at != std::string_view::npos && data_at != std::string_view::npos && text_at < data_at);
  std::string out(page.substr(0, text_at));
  out += inside_html(text);
  out += page.substr(text_at + kText.size(), data_at - text_at - kText.size());
  out += inside_script(data);
  out += page.substr(data_at + kData.size());
  return out;
}

}  // namespace espalier::report
