// SPDX-License-Identifier: Apache-2.0
// Writes plans for money, a budget or a deadline: the table of sizes, and espalier.objective/1.
#include "base/document.h"
#include "base/format.h"
#include "espalier/documents.h"
#include "espalier/objective.h"
#include "report/brief_text.h"

namespace espalier {
namespace {

std::string nodes_text(const std::vector<std::int64_t>& nodes) {
  std::string out;
  for (const std::int64_t n : nodes) out += cat(out.empty() ? "" : "+", n);
  return out;
}

std::string wanted(const Objective& o) {
  std::string out = o.minimise == Objective::Minimise::cost ? "the cheapest" : "the fastest";
  if (o.budget_per_step) out += cat(" at ", base::fixed(*o.budget_per_step, 4), " per step or less");
  if (o.deadline_s) out += cat(" within ", base::fixed(*o.deadline_s / 86400, 1), " days");
  return out;
}

}  // namespace

std::string adapt::to_text(const ObjectiveAnswer& answer) {
  std::string currency;
  bool whole = false;
  for (const adapt::SizeAnswer& a : answer.sizes)
    if (a.expense) {
      currency = a.expense->currency;
      whole = whole || a.expense->whole_run > 0;
    }
  std::vector<std::string> head{"",
                                "nodes",
                                "devices",
                                "step",
                                cat(currency, currency.empty() ? "" : " ", "per step"),
                                cat(currency, currency.empty() ? "" : " ", "per million tokens"),
                                "days"};
  if (whole) head.push_back(cat(currency, currency.empty() ? "" : " ", "in total"));
  head.emplace_back("plan");
  std::vector<std::vector<std::string>> rows{head};
  for (std::size_t i = 0; i < answer.sizes.size(); ++i) {
    const adapt::SizeAnswer& a = answer.sizes[i];
    const std::string mark = i == answer.best ? "→" : a.iteration_ns && !a.within ? "×" : "";
    std::vector<std::string> row{mark,
                                 nodes_text(a.nodes_by_group),
                                 std::to_string(a.devices),
                                 a.iteration_ns ? base::seconds(*a.iteration_ns) : "–",
                                 a.expense ? base::fixed(a.expense->per_step, 4) : "–",
                                 a.expense ? base::fixed(a.expense->per_token * 1e6, 3) : "–",
                                 a.days ? base::fixed(*a.days, 1) : "–"};
    if (whole) row.push_back(a.expense ? base::fixed(a.expense->whole_run, a.expense->whole_run < 100 ? 2 : 0) : "–");
    row.push_back(a.label);
    rows.push_back(std::move(row));
  }
  std::string out = cat("objective: ", wanted(answer.objective), " of ", answer.sizes.size(),
                        " sizes of the cluster (→; ×: not within)\n", report::table(rows, {head.size() - 1}));
  if (answer.least_cost > 0)
    out += cat("  no step on these devices costs less than ", base::fixed(answer.least_cost, 4), currency.empty() ? "" : " ",
               currency, ": the lower bound of the work\n");
  return out;
}

std::string adapt::to_json(const ObjectiveAnswer& answer) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.objective/1");
  w.key("minimise").value(answer.objective.minimise == Objective::Minimise::cost ? "cost" : "time");
  if (answer.objective.budget_per_step) w.key("budget_per_step").value(*answer.objective.budget_per_step);
  if (answer.objective.deadline_s) w.key("deadline_s").value(*answer.objective.deadline_s);
  w.key("least_cost_per_step").value(answer.least_cost);
  w.key("best").value(static_cast<std::int64_t>(answer.best));
  w.key("sizes").begin_array();
  for (const adapt::SizeAnswer& a : answer.sizes) {
    w.begin_object();
    w.key("nodes_by_group").compact_next().begin_array();
    for (const std::int64_t n : a.nodes_by_group) w.value(n);
    w.end_array();
    w.key("devices").value(a.devices);
    w.key("price_per_hour").value(a.per_hour);
    w.key("searched").value(a.iteration_ns.has_value());
    w.key("within").value(a.within);
    if (a.iteration_ns) w.key("iteration_s").seconds(*a.iteration_ns);
    if (a.expense) w.key("cost_per_step").value(a.expense->per_step);
    if (a.expense) w.key("cost_per_token").value(a.expense->per_token);
    if (a.expense && a.expense->whole_run > 0) w.key("cost_whole_run").value(a.expense->whole_run);
    if (a.expense) w.key("currency").value(a.expense->currency);
    if (a.days) w.key("days").value(*a.days);
    w.key("plan").value(a.label);
    w.end_object();
  }
  w.end_array();
  w.key("answer").raw(to_json(*answer.answer, false));
  w.end_object();
  return w.text();
}

}  // namespace espalier
