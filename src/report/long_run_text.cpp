// SPDX-License-Identifier: Apache-2.0
// Writes plans on links with token buckets: the table of candidates, and espalier.long-run/1.
#include <cmath>

#include "base/document.h"
#include "base/format.h"
#include "espalier/documents.h"
#include "espalier/long_run.h"
#include "report/brief_text.h"

namespace espalier {
namespace {

std::string lasting(double seconds) {
  if (std::isinf(seconds)) return "ever";
  return seconds < 120 ? cat(base::fixed(seconds, 1), " s") : cat(base::fixed(seconds / 60, 1), " min");
}

}  // namespace

std::string adapt::to_text(const LongRunAnswer& answer) {
  std::vector<std::vector<std::string>> rows{
      {"", "planned for", "first step", "lasts for", "in the long run", "at the sustained rate", "plan"}};
  for (std::size_t i = 0; i < answer.candidates.size(); ++i) {
    const adapt::LongRunCandidate& c = answer.candidates[i];
    rows.push_back({i == 0 ? "→" : "", c.planned_for, base::seconds(c.run.first_ns), lasting(c.run.lasts_s),
                    cat(c.run.settled ? "" : "~", base::seconds(c.run.steps_ns)), base::seconds(c.sustained_ns), c.plan.label()});
  }
  return cat("links with token buckets: the plan with the shortest steps once the buckets are empty (→)\n",
             report::table(rows, {6}), "  no plan has shorter steps than ", base::seconds(answer.bound_ns),
             " at the full rate: gap ", base::fixed(answer.gap() * 100, 1), " %\n");
}

std::string adapt::to_json(const LongRunAnswer& answer) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.long-run/1");
  w.key("lower_bound_s").seconds(answer.bound_ns);
  w.key("gap").value(answer.gap());
  w.key("candidates").begin_array();
  for (const adapt::LongRunCandidate& c : answer.candidates) {
    w.begin_object();
    w.key("planned_for").value(c.planned_for);
    w.key("plan").value(c.plan.label());
    w.key("hash").value(content_hash(c.plan));
    w.key("first_s").seconds(c.run.first_ns);
    w.key("lasts_s");
    if (std::isinf(c.run.lasts_s))
      w.null();
    else
      w.value(c.run.lasts_s);
    w.key("long_run_s").seconds(c.run.steps_ns);
    w.key("settled").value(c.run.settled);
    w.key("sustained_s").seconds(c.sustained_ns);
    w.key("bytes").value(c.run.bytes);
    w.key("bytes_at_sustained_s").seconds(std::llround(c.run.least_ns));
    w.end_object();
  }
  w.end_array();
  w.key("answer").raw(to_json(answer.answer, false));
  w.end_object();
  return w.text();
}

}  // namespace espalier
