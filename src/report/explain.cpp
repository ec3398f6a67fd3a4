// SPDX-License-Identifier: Apache-2.0
#include "espalier/explain.h"

#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "espalier/text.h"
#include "job/search_part.h"
#include "planner/pipeline_bottleneck.h"
#include "planner/single_changes.h"
#include "planner/time_parts.h"
#include "report/advice.h"
#include "report/beside_text.h"
#include "report/brief_layers.h"
#include "report/brief_text.h"
#include "report/operator_text.h"

namespace espalier::report {
namespace {

std::string memory_sentence(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  std::size_t fullest = 0;
  for (std::size_t i = 1; i < p.peak_memory_bytes_per_stage.size(); ++i) {
    if (p.peak_memory_bytes_per_stage[i] > p.peak_memory_bytes_per_stage[fullest]) fullest = i;
  }
  const std::int64_t left = p.memory_limit_bytes - p.peak_memory_bytes;
  const std::string margin =
      p.memory_margin > 0 && left >= 0
          ? cat(", ", percent(p.memory_margin), " of the limit is kept free for the error of the memory model")
          : "";
  const std::string place = p.peak_memory_bytes_per_stage.size() > 1 ? cat(" (stage ", std::to_string(fullest), ")") : "";
  return cat("the fullest rank", place, " needs ", gib(p.peak_memory_bytes), " of ", gib(p.memory_limit_bytes), ": ",
             left >= 0 ? cat(gib(left), " to spare") : cat(gib(-left), " too much"), margin);
}

std::string bottleneck_section(const PlannerResult& r) {
  std::string out = "What limits it\n";
  for (const std::string& sentence : bottlenecks(r)) out += cat("  - ", wrap(sentence, 110, "    "), "\n");
  return out;
}

std::string losers_section(const PlannerResult& r) {
  if (r.alternatives.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"alternative", "step", "slower", "memory", "lost time"}};
  for (const Alternative& a : r.alternatives) {
    const bool timed = a.iteration_ns > 0 && r.prediction.iteration_ns > 0;
    const double slower = timed ? static_cast<double>(a.iteration_ns) / static_cast<double>(r.prediction.iteration_ns) - 1 : 0;
    rows.push_back({a.label, timed ? seconds(a.iteration_ns) : "–", timed ? cat(slower >= 0 ? "+" : "", percent(slower)) : "–",
                    a.peak_memory_bytes > 0 ? gib(a.peak_memory_bytes) : "–",
                    a.lost_to.empty() && !a.fits ? "does not fit" : a.lost_to});
  }
  return cat("\nBaselines and runners-up\n", table(rows, {4}));
}

std::string pruning_section(const SearchSummary& s) {
  if (!searched(s.reason)) return "";
  std::vector<std::vector<std::string>> rows{{"part of the space", "configurations", "share"}};
  const double whole = std::max(s.space_size, 1.0);
  for (const auto& [rule, n] : s.pruned) rows.push_back({cat("removed by ", rule), count(n), percent(n / whole)});
  rows.push_back({"simulated", grouped(s.simulated), percent(static_cast<double>(s.simulated) / whole)});
  if (s.lowered > 0) rows.push_back({"programs lowered", grouped(s.lowered), ""});
  rows.push_back({"all legal ones", count(s.space_size), percent(s.space_size / whole)});
  std::string out =
      cat("\nHow the ", covers_layers(s) ? "uniform " : "", "space was covered (", to_string(s.reason), ")\n", table(rows));
  out += cat("  best ≥ ", seconds(s.lower_bound_ns), " is proven; gap ", percent(s.gap), "\n");
  return out;
}

std::string beside_section(const PlannerResult& r) {
  std::string out;
  if (const std::string engines = runs_on_text(r); !engines.empty())
    out += cat("  runs on   ", wrap(engines, 100, "            "), "\n");
  if (const std::string simplest = simplest_text(r); !simplest.empty())
    out += cat("  simplest  ", wrap(simplest, 100, "            "), "\n");
  return out.empty() ? "" : cat("\nEngines that run it, and simpler plans\n", out);
}

std::string layers_section(const PlannerResult& r) {
  return layer_tables("Layers", r.plan, r.prediction.peak_memory_bytes_per_stage);
}

std::string layerwise_section(const PlannerResult& r) {
  const PhaseSummary* layers = r.search.counted(SearchCounter::strategies);
  if (layers == nullptr) return "";
  const auto counted = [&](SearchCounter counter) { return count_of(layers->counters, counter); };
  const auto many = [&](SearchCounter counter) { return count(static_cast<double>(counted(counter))); };
  std::string out = cat("\nWhat layer-wise strategies gain\n  ", layerwise_gain(r.search, r.prediction.iteration_ns), "\n  ");
  out += cat(grouped(counted(SearchCounter::bounded)), " of ", grouped(counted(SearchCounter::choices)),
             " pipelines solved, the others excluded by their bound; ", many(SearchCounter::kept), " of ",
             many(SearchCounter::strategies), " strategies are not dominated by another of the same layout\n");
  if (!r.search.balance.empty()) out += cat("\n", balance_table(r.search.balance, r.plan));
  return out;
}

std::string dimension_section(const SearchSummary& s) {
  if (s.by_dimension.empty()) return "";
  std::string out = "\nLegal configurations by dimension\n";
  for (const auto& [dimension, counts] : s.by_dimension) {
    std::string row;
    for (const auto& [value, n] : counts) {
      row.append(row.empty() ? "" : "   ").append(cat(job::value_name(dimension, value), ": ", count(n)));
    }
    out += cat("  ", pad_right(dimension, 18), wrap(row, 100, std::string(20, ' ')), "\n");
  }
  return out;
}

std::string reasons_section(const PlannerResult& r) {
  if (r.reasons.empty()) return "";
  std::string out = "\nWhy this one\n";
  for (const std::string& reason : r.reasons) out += cat("  - ", wrap(reason, 110, "    "), "\n");
  return out;
}

}  // namespace

void simulate_changes(const Job& job, PlannerResult& result) { planner::add_single_changes(job, result); }

std::vector<std::string> bottlenecks(const PlannerResult& result) {
  std::vector<std::string> out;
  const Prediction& p = result.prediction;
  const bool pipeline = p.bottleneck.busy_per_stage.size() > 1;
  const planner::HostWork host = planner::host_work_of(result.plan);
  if (pipeline) out.push_back(planner::pipeline_bottleneck(p, host));
  const double whole = std::max<double>(1.0, static_cast<double>(p.iteration_ns));
  const std::string where = pipeline ? cat(" on stage ", std::to_string(p.bottleneck.stage)) : "";
  for (const planner::TimePart& part : planner::parts_by_size(pipeline ? p.bottleneck.breakdown : p.breakdown, host)) {
    const double share = static_cast<double>(part.ns) / whole;
    if (share < 0.02) continue;
    const std::string better = advice(part, result);
    out.push_back(
        cat(part.name, " takes ", percent(share), " (", seconds(part.ns), ")", where, better.empty() ? "" : "; ", better));
  }
  out.push_back(memory_sentence(result));
  return out;
}

std::string explain(const PlannerResult& result, std::size_t width) {
  const std::string text = cat(
      result.plan.label(), ": ", seconds(result.prediction.iteration_ns), " per step\n\n", bottleneck_section(result),
      beside_section(result), layers_section(result), operator_section(result), engine_section(result), reasons_section(result),
      layerwise_section(result), losers_section(result), pruning_section(result.search), dimension_section(result.search));
  return lay_out(text, width);
}

Result<Job> job_to_explain(const Plan& plan) {
  if (Status status = unsupported(plan); !status.ok()) return status.error();
  auto job = job_of_plan(plan);
  if (job && !plan.uniform()) job->search.kind = SpaceKind::layerwise;
  return job;
}

PlannerResult with_search(const Job& job, PlannerResult simulated, const PlannerOptions& options) {
  auto best = plan(job, options);
  if (!best) return simulated;  // the plan can still be explained by itself
  PlannerResult result = std::move(simulated);
  result.search = best->search;
  result.alternatives = best->alternatives;
  result.simplest = best->simplest;
  result.searched = best->searched;
  if (best->plan.pipelines == result.plan.pipelines) {
    result.reasons = best->reasons;
    result.runs_on = best->runs_on;
    result.runnable = best->runnable;
    return result;
  }
  ESPALIER_CHECK(best->prediction.fits);  // no search returns a plan that does not fit
  Alternative better;
  better.label = best->plan.label();
  better.fits = true;
  better.iteration_ns = best->prediction.iteration_ns;
  better.peak_memory_bytes = best->prediction.peak_memory_bytes;
  better.lost_to = "nothing: the best of the whole space";
  better.plan = best->plan;
  result.alternatives.insert(result.alternatives.begin(), std::move(better));
  return result;
}

std::string explain_json(const PlannerResult& result) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.explanation/1");
  w.key("label").value(result.plan.label());
  w.key("iteration_s").seconds(result.prediction.iteration_ns);
  w.key("bottlenecks").begin_array();
  for (const std::string& sentence : bottlenecks(result)) w.value(sentence);
  w.end_array();
  w.key("reasons").begin_array();
  for (const std::string& sentence : result.reasons) w.value(sentence);
  w.end_array();
  w.key("result").raw(to_json(result, false));
  w.end_object();
  return w.text();
}

}  // namespace espalier::report
