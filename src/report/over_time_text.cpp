// SPDX-License-Identifier: Apache-2.0
// Writes plans over a trace: the table, and espalier.over-time/1.
#include "base/document.h"
#include "base/format.h"
#include "espalier/policy.h"
#include "report/brief_text.h"

namespace espalier {
namespace {

std::string hours(double seconds) {
  return seconds < 7200 ? cat(base::fixed(seconds / 60, 1), " min") : cat(base::fixed(seconds / 3600, 1), " h");
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t out = 0;
  for (const std::int64_t v : values) out += v;
  return out;
}

std::string plans_table(const adapt::OverTime& answer) {
  std::vector<std::vector<std::string>> rows{{"plan", "nodes", "step", "can run", "if never changed", "in the worst epoch", ""}};
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    const adapt::TracePlan& p = answer.plans[i];
    rows.push_back({std::to_string(i), std::to_string(sum(p.nodes_by_group)), base::seconds(p.iteration_ns),
                    base::percent(p.runs_s / answer.length_s), cat(base::fixed(p.static_samples_per_s, 2), " samples/s"),
                    cat(base::fixed(p.worst_samples_per_s, 2), " samples/s"), p.plan.label()});
  }
  return report::table(rows, {6});
}

std::string runs_table(const adapt::OverTime& answer) {
  std::vector<std::vector<std::string>> rows{{"", "samples/s", "changes", "pauses", "lost in total"}};
  for (const adapt::TraceRun& run : answer.runs)
    rows.push_back(
        {run.name, base::fixed(run.samples_per_s, 3), std::to_string(run.moves), hours(run.moves_s), hours(run.lost_s)});
  return report::table(rows);
}

void write_run(base::JsonWriter& w, const adapt::TraceRun& run) {
  w.begin_object();
  w.key("name").value(run.name);
  w.key("samples_per_s").value(run.samples_per_s);
  w.key("lost_s").value(run.lost_s);
  w.key("pauses_s").value(run.moves_s);
  w.key("changes").value(run.moves);
  w.key("decisions").begin_array();
  for (const adapt::TraceDecision& d : run.decisions) {
    w.compact_next().begin_object();
    w.key("at_s").value(d.at_s);
    w.key("plan").value(static_cast<std::int64_t>(d.plan));
    w.end_object();
  }
  w.end_array();
  w.end_object();
}

}  // namespace

namespace {

std::string bound_text(const adapt::PolicyBound& bound) {
  if (bound.cheapest_move_s <= 0) return cat("loses ", hours(bound.lost_s()), ", the loss of its only plan");
  return cat("loses at most ", hours(bound.lost_s()), " (", base::fixed(bound.factor, 1), " times the ",
             hours(bound.clairvoyant_s), " lost by the clairvoyant policy on these plans and the ", hours(bound.cheapest_move_s),
             " of the cheapest move, ", hours(bound.noise_s), " lost to changes too small for a move, ", hours(bound.unnoticed_s),
             " lost before changes are noticed)");
}

}  // namespace

std::string adapt::to_text(const OverTime& answer) {
  std::string out = cat("over ", hours(answer.length_s), ": ", answer.epochs, " epochs, ", answer.states,
                        " different clusters, plans to choose from: ", answer.plans.size(), "\n\n", plans_table(answer), "\n",
                        runs_table(answer));
  out += cat("  the online policy chooses from ", answer.offered, answer.offered == 1 ? " plan" : " plans",
             ", notices a change after ", base::fixed(answer.detection_s, 0), " s, and ", bound_text(answer.bound),
             "; it misses ", base::percent(answer.regret), " of the samples of the clairvoyant policy on all plans\n");
  return out;
}

std::string adapt::to_json(const OverTime& answer) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.over-time/1");
  w.key("length_s").value(answer.length_s);
  w.key("epochs").value(answer.epochs);
  w.key("states").value(answer.states);
  w.key("best_static").value(static_cast<std::int64_t>(answer.best_static));
  w.key("best_worst_case").value(static_cast<std::int64_t>(answer.best_worst));
  w.key("offered").value(static_cast<std::int64_t>(answer.offered));
  w.key("detection_s").value(answer.detection_s);
  w.key("checkpoint_age_s").value(answer.checkpoint_age_s);
  w.key("factor").value(answer.bound.factor);
  w.key("bound_s").value(answer.bound.lost_s());
  w.key("clairvoyant_of_offered_s").value(answer.bound.clairvoyant_s);
  w.key("cheapest_move_s").value(answer.bound.cheapest_move_s);
  w.key("noise_s").value(answer.bound.noise_s);
  w.key("unnoticed_s").value(answer.bound.unnoticed_s);
  w.key("regret").value(answer.regret);
  w.key("runs").begin_array();
  for (const adapt::TraceRun& run : answer.runs) write_run(w, run);
  w.end_array();
  w.key("plans").begin_array();
  for (const adapt::TracePlan& p : answer.plans) {
    w.begin_object();
    w.key("label").value(p.plan.label());
    w.key("nodes_by_group").compact_next().begin_array();
    for (const std::int64_t nodes : p.nodes_by_group) w.value(nodes);
    w.end_array();
    w.key("iteration_s").seconds(p.iteration_ns);
    w.key("runs_s").value(p.runs_s);
    w.key("static_samples_per_s").value(p.static_samples_per_s);
    w.key("worst_samples_per_s").value(p.worst_samples_per_s);
    w.key("plan").raw(to_json(p.plan));
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier
