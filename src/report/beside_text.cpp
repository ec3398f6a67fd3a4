// SPDX-License-Identifier: Apache-2.0
#include "report/beside_text.h"

#include "base/format.h"
#include "report/brief_text.h"
#include "report/plan_words.h"

namespace espalier::report {
namespace {

std::string dimensions_text(std::int32_t n) { return cat(std::to_string(n), n == 1 ? " dimension" : " dimensions"); }

}  // namespace

bool is_simplest(const PlannerResult& r) {
  // A result read from a file does not hold the simplest plan, so its label and time are compared.
  return r.simplest && r.simplest->label == r.plan.label() && r.simplest->iteration_ns == r.prediction.iteration_ns;
}

std::string runs_on_text(const PlannerResult& r) {
  if (!r.runs_on) return "";
  if (!r.runs_on->empty()) return base::joined(*r.runs_on);
  if (!r.runnable) return "none";
  const EngineAnswer& e = *r.runnable;
  return cat("none; ", e.engine, " would run ", e.label, ": ", seconds(e.iteration_ns), " (", signed_percent(e.loss), ")");
}

std::string restriction_text(const PlannerResult& r) {
  if (!r.restriction) return "";
  const RestrictionPrice& p = *r.restriction;
  const std::string rules = cat("the rules of ", p.engine);
  if (p.label.empty()) return cat(rules, ": no plan was found without them");
  if (p.rules.empty() && p.certified) return cat(rules, " cost nothing: no faster plan exists without them");
  const std::int64_t more = r.prediction.iteration_ns - p.iteration_ns;
  return cat(rules, " cost ", seconds(more), " per step (", signed_percent(p.price), "): without them ", p.label, " takes ",
             seconds(p.iteration_ns), p.certified ? "" : ", not proven the fastest",
             p.rules.empty() ? "" : cat("; it breaks ", base::joined(p.rules)));
}

std::string simplest_text(const PlannerResult& r) {
  if (!r.simplest) return "";
  const Simplest& s = *r.simplest;
  const std::string claim = cat(s.certified ? "" : "not proven, ", "within ", percent(s.within));
  if (is_simplest(r))
    return cat("this plan: ", dimensions_text(s.dimensions), ", ",
               s.loss > 0 ? cat(signed_percent(s.loss), " to the fastest") : "none simpler", " (", claim, ")");
  return cat(s.label, ": ", dimensions_text(s.dimensions), ", ", seconds(s.iteration_ns), " (", signed_percent(s.loss), "; ",
             claim, "; --simple selects it)");
}

std::vector<std::pair<std::string, std::string>> option_lines(const PlannerResult& r) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionAnswer& o : r.options) {
    std::string options;
    for (std::size_t i = 0; i < o.options.size(); ++i) {
      const double loss = i < o.losses.size() ? o.losses[i] : 0;
      options += cat(options.empty() ? "" : ", ", o.options[i], " (",
                     loss < 0 ? "does not fit without it" : cat("without it ", signed_percent(loss)), ")");
    }
    out.emplace_back(
        o.numerics ? "numerics" : "options",
        cat(o.numerics ? "CHANGES WHAT IS COMPUTED: " : "execution only: ", seconds(o.iteration_ns), ", ", percent(o.gain),
            " less: ", o.label, ", ", gib(o.peak_memory_bytes), "; ", options, "; --engine ", o.engine));
  }
  return out;
}

std::string margin_text(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  if (r.search.memory_margin <= 0) return "";
  return cat(percent(r.search.memory_margin), " of ", gib(p.memory_limit_bytes), " is kept free (", r.search.memory_margin_basis,
             "); set search.memory_margin to change it");
}

std::string engine_section(const PlannerResult& r) {
  if (r.engines.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"engine", "runs this plan", "its best plan", "step", "against", "why not"}};
  for (const EngineAnswer& e : r.engines) {
    const bool timed = e.iteration_ns > 0;
    rows.push_back({e.engine,
                    e.status == EngineStatus::runs      ? "yes"
                    : e.status == EngineStatus::unknown ? "unknown"
                                                        : "no",
                    timed ? e.label : "–", timed ? seconds(e.iteration_ns) : "–", timed ? signed_percent(e.loss) : "–", e.why});
  }
  return cat("\nEngines\n", table(rows, {1, 2, 5}));
}

}  // namespace espalier::report
