// SPDX-License-Identifier: Apache-2.0
// The first screen of an answer: at most 24 lines of 80 columns. Everything else is in PlannerResult::brief, in
// `explain` and in the report.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/invariant.h"
#include "espalier/planner.h"
#include "espalier/text.h"
#include "plan/engine.h"
#include "planner/memory_margin.h"
#include "planner/time_parts.h"
#include "report/beside_text.h"
#include "report/brief_text.h"
#include "report/plan_words.h"
#include "report/shown_stage.h"

namespace espalier::report {
namespace {

constexpr std::size_t kMostLines = 22;  // two more name the next commands

/// Names the engine that runs this very plan: the job's, or the first that does. Without one it names the nearest plan
/// that an engine runs.
std::string engine_words(const PlannerResult& r) {
  const std::string own(base_engine(r.plan.engine));
  if (!r.runs_on) return own == "generic" ? "" : r.plan.engine;
  const std::vector<std::string>& engines = *r.runs_on;
  if (std::find(engines.begin(), engines.end(), own) != engines.end()) return r.plan.engine;
  if (!engines.empty()) return cat("runs on ", engines.front());
  if (r.runnable)
    return cat("no engine can run it; ", r.runnable->engine, " runs ", r.runnable->label, ", ", signed_percent(r.runnable->loss));
  return "no engine can run it";
}

std::string first_line(const PlannerResult& r) {
  const std::string engine = engine_words(r);
  return cat(r.plan.label(), engine.empty() ? "" : cat(" · ", engine), "\n");
}

std::string step_words(const Prediction& p) {
  const Confidence& c = p.confidence;
  if (c.high_s <= 0) return seconds(p.iteration_ns);
  const auto exact = [](double s) { return seconds(static_cast<std::int64_t>(s * 1e9)); };
  const std::string range =
      c.low_s >= 1 ? cat(fixed(c.low_s, 1), "–", fixed(c.high_s, 1), " s") : cat(exact(c.low_s), " – ", exact(c.high_s));
  return cat(seconds(p.iteration_ns), "   ", fixed(c.level * 100, 0), " % interval ", range,
             c.basis.starts_with("uncalibrated") ? ", uncalibrated" : "");
}

std::string throughput_words(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  return cat(count(p.tokens_per_s_per_device), counts_tokens(r.plan) ? " tokens/s/GPU" : " samples/s/GPU", "   MFU ",
             mfu_text(p, "causal"));
}

std::string memory_words(const Prediction& p) {
  return cat(gib(p.peak_memory_bytes), " of ", gib(p.memory_limit_bytes), " on the fullest rank", fit_note(p));
}

/// Lists compute, exposed communication, bubble and the rest of the busiest stage, a line each.
std::string time_lines(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  const std::vector<planner::TimePart> parts = planner::time_parts(shown_parts(p), planner::host_work_of(r.plan));
  constexpr std::size_t kNamed = 3;
  ESPALIER_CHECK(parts.size() > kNamed);
  planner::TimePart rest{planner::TimeKind::other, "update, host and other", 0};
  for (std::size_t i = kNamed; i < parts.size(); ++i) rest.ns += parts[i].ns;
  std::string out;
  for (std::size_t i = 0; i <= kNamed; ++i) {
    const planner::TimePart& part = i < kNamed ? parts[i] : rest;
    const double share = p.iteration_ns > 0 ? static_cast<double>(part.ns) / static_cast<double>(p.iteration_ns) : 0;
    std::string note;
    if (i == 0 && is_pipeline(p)) note = cat("  (stage ", std::to_string(p.bottleneck.stage), ")");
    if (i == 1 && p.hidden_communication_ns > 0) note = cat("  (", seconds(p.hidden_communication_ns), " overlapped)");
    out += answer_line(i == 0 ? "time" : "",
                       cat(pad_left(percent(share), 6), "  ", pad_right(part.name, 22), pad_left(seconds(part.ns), 10), note));
  }
  return out;
}

std::string space_words(const SearchSummary& s) {
  if (covers_groups(s)) return "in the spaces searched";
  if (covers_partitions(s)) return "with any partition of operators";
  if (covers_layers(s)) return "among layer-wise plans";
  return cat("among ", count(s.space_size), " configurations");
}

std::string certificate_words(const SearchSummary& s) {
  if (!searched(s.reason)) return "none: the configuration was given, not searched";
  const std::string kept = s.memory_margin > 0 ? cat(", ", percent(s.memory_margin), " of memory kept free") : "";
  if (s.optimal)
    return cat("optimal: no ", s.asked.simple ? "plan faster than the fastest found" : "faster plan", " exists ", space_words(s),
               kept);
  const std::string why = is_whole(s.reason) ? "" : cat("not proven (", to_string(s.reason), "): ");
  if (s.lower_bound_ns == 0) return cat(why, "plans that were not searched may be faster");
  return cat(why, at_most(s.gap / (1 - s.gap)), " slower than the best plan ", space_words(s), kept);
}

/// Returns whether a plan fits with the memory margin of the search.
bool fits_with_margin(const Alternative& a, const PlannerResult& r) {
  return a.fits && a.peak_memory_bytes <= planner::room_of(r.prediction.memory_limit_bytes, r.search.memory_margin);
}

/// Lists the two nearest plans: runners-up of the search, then presets, which rules and pins of the job may forbid.
std::vector<std::string> alternative_lines(const PlannerResult& r) {
  std::vector<const Alternative*> near;
  for (const Alternative& a : r.alternatives)
    if (fits_with_margin(a, r) && a.iteration_ns > 0 && !a.outside_space) near.push_back(&a);
  std::stable_sort(near.begin(), near.end(), [](const auto* a, const auto* b) {
    return std::pair(a->baseline, a->iteration_ns) < std::pair(b->baseline, b->iteration_ns);
  });
  std::vector<std::string> out, shown{r.plan.label()};
  for (const Alternative* a : near) {
    const std::string label = a->plan ? a->plan->label() : a->label;
    if (out.size() == 2 || std::find(shown.begin(), shown.end(), label) != shown.end()) continue;
    const double slower = static_cast<double>(a->iteration_ns) / static_cast<double>(r.prediction.iteration_ns) - 1;
    const std::string name = a->label == label ? label : cat(a->label, ": ", label);
    out.push_back(
        wrapped_line(out.empty() ? "alternatives" : "", cat(signed_percent(slower), "  ", a->baseline ? "preset " : "", name)));
    shown.push_back(label);
  }
  return out;
}

std::string option_words(const OptionAnswer& o) {
  return cat(percent(o.gain), " faster with ", base::joined(o.options), o.numerics ? " (CHANGES TRAINING)" : " (execution only)",
             ": --engine ", o.engine);
}

/// Lists what one more flag would change.
std::vector<std::string> offer_lines(const PlannerResult& r) {
  std::vector<std::string> out;
  const bool simplest = is_simplest(r);
  if (r.simplest && !simplest)
    out.push_back(wrapped_line("simpler", cat("--simple: ", r.simplest->label, ", ", signed_percent(r.simplest->loss))));
  if (simplest && r.search.asked.simple) out.push_back(wrapped_line("simplest", simplest_text(r)));
  for (const OptionAnswer& o : r.options) out.push_back(wrapped_line("option", option_words(o)));
  return out;
}

/// Joins blocks of lines, and leaves out as many optional ones, the last first, as a screen does not hold.
std::string screen_of(const std::string& fixed_lines, std::vector<std::string> optional, std::size_t width) {
  for (;;) {
    const std::string text = lay_out(cat(fixed_lines, base::joined(optional, "")), width);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    if (lines <= kMostLines || optional.empty()) return text;
    optional.pop_back();
  }
}

}  // namespace
}  // namespace espalier::report

namespace espalier {

using namespace report;

std::string PlannerResult::screen(std::size_t width) const {
  std::string out = first_line(*this) + job_words(plan) + "\n\n";
  out += wrapped_line("step", step_words(prediction));
  out += wrapped_line("throughput", throughput_words(*this));
  out += wrapped_line("memory", memory_words(prediction));
  out += time_lines(*this);
  out += wrapped_line("certificate", certificate_words(search));
  if (const std::string price = restriction_text(*this); !price.empty()) out += wrapped_line("engine rules", price);
  if (const std::string links = busiest_links(prediction); !links.empty()) out += wrapped_line("busiest links", links);
  if (prediction.cost) out += wrapped_line("cost", cost_text(*prediction.cost, counts_tokens(plan)));
  if (prediction.days > 0) out += wrapped_line("whole run", run_words(prediction));
  std::vector<std::string> optional = offer_lines(*this);
  for (std::string& other : alternative_lines(*this)) optional.push_back(std::move(other));
  return screen_of(out, std::move(optional), width) + lay_out(engine_section(*this), width);
}

}  // namespace espalier
