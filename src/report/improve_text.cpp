// SPDX-License-Identifier: Apache-2.0
// Writes the cost of a present configuration and better ones, for people and as espalier.improvement/1.
#include "base/document.h"
#include "base/format.h"
#include "espalier/compare.h"
#include "espalier/improve.h"
#include "espalier/text.h"
#include "report/brief_text.h"
#include "report/plan_words.h"
#include "report/shown_stage.h"

namespace espalier {
namespace {

using report::mfu_text;

std::string memory_of(const Prediction& p) {
  return cat(gib(p.peak_memory_bytes), " of ", gib(p.memory_limit_bytes),
             !p.fits              ? ", which does not fit"
             : p.fits_with_margin ? ""
                                  : ", which may not fit");
}

std::string figures(const Prediction& p) {
  return cat(seconds(p.iteration_ns), " per step, ", base::count(p.tokens_per_s_per_device), " tokens/s/GPU, MFU ", mfu_text(p),
             ", ", memory_of(p));
}

/// Describes the margin required of the best plan and the changes.
std::string margin_line(const adapt::Improvement& i) {
  if (!i.margin_of_present) return "";
  return cat("         leaves ", percent(i.memory_margin),
             " of memory free, less than usual: the best plan and the changes may leave the same share\n");
}

std::string present_lines(const adapt::Improvement& i) {
  if (!i.present) return cat("present: cannot run: ", i.broken, "\n");
  return cat("present: ", i.present->plan.label(), "\n         ", figures(i.present->prediction), "\n", margin_line(i));
}

std::string nothing_faster(const adapt::Improvement& i) {
  return cat("no plan of this engine",
             i.memory_margin > 0 ? cat(" that leaves ", percent(i.memory_margin), " of memory free") : "",
             " is faster by more than 0.05 %");
}

/// Describes where the best plan is from, if the search did not find it, and which dimensions the search varied
/// because of the present plan.
std::string origin_line(const adapt::Improvement& i) {
  std::string out;
  if (i.best_from == adapt::Improvement::From::present)
    out += cat("         the present plan itself: ",
               i.none ? "nothing else in the searched space fits" : "no plan of the searched space is faster", "\n");
  if (i.best_from == adapt::Improvement::From::change)
    out += "         a single change of the present plan, faster than every plan of the searched space\n";
  for (const auto& [dimension, values] : i.widened)
    out += cat("         searched with ", dimension, " ", base::joined(values), ", because the present plan uses it\n");
  return out;
}

std::string best_lines(const adapt::Improvement& i) {
  if (!i.best) return cat("best:    none: ", i.none->found, i.none->hint.empty() ? "" : cat("; ", i.none->hint), "\n");
  std::string verdict;
  if (i.present && i.present->prediction.fits)
    verdict = i.gain > 0.0005 ? cat("saves ", percent(i.gain), " of the step") : nothing_faster(i);
  std::string out = cat("best:    ", i.best->plan.label(), "\n         ", figures(i.best->prediction), "\n", origin_line(i));
  if (!verdict.empty()) out += cat("         ", verdict, "\n");
  return out;
}

std::string change_lines(const adapt::Improvement& i) {
  const bool runs = i.present && i.present->prediction.fits;
  if (i.tried == 0) return "\nNo single change satisfies the rules.\n";
  if (i.changes.empty())
    return cat("\nOf ", i.tried, " single changes none ", runs ? "is faster and fits" : "makes it run", ".\n");
  std::vector<std::vector<std::string>> rows{{"one change", "step", "against", "memory", "plan"}};
  for (const SingleChange& c : i.changes)
    rows.push_back({c.change, seconds(c.iteration_ns), i.present ? report::signed_percent(-c.gain) : "–",
                    gib(c.peak_memory_bytes), c.label});
  return cat("\n", runs ? "Single changes that gain most" : "Single changes that make it run", ", of ", i.tried, " tried\n",
             report::table(rows, {0, 4}));
}

void write_change(base::JsonWriter& w, const SingleChange& c) {
  w.begin_object();
  w.key("change").value(c.change);
  w.key("label").value(c.label);
  w.key("iteration_s").seconds(c.iteration_ns);
  w.key("gain").value(c.gain);
  w.key("peak_memory_bytes").value(c.peak_memory_bytes);
  w.key("fits").value(c.fits);
  w.end_object();
}

}  // namespace

std::string adapt::to_text(const Improvement& i, std::size_t width, const std::string& changes) {
  std::string out = present_lines(i) + best_lines(i) + (changes.empty() ? "" : "\n" + changes) + change_lines(i);
  out = report::lay_out(out, width);
  if (i.present && i.best) out += cat("\n", report::compare({{"present", *i.present}, {"best", *i.best}}, width));
  return out;
}

std::string adapt::to_json(const Improvement& i, const std::string& source, PlanSchema schema, const std::string& diff) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.improvement/1");
  if (!source.empty()) w.key("import").raw(source);
  w.key("present").begin_object();
  if (i.present)
    w.key("label").value(i.present->plan.label()).key("result").raw(to_json(*i.present, false, schema));
  else
    w.key("broken").value(i.broken);
  w.end_object();
  w.key("best").begin_object();
  if (i.best)
    w.key("label").value(i.best->plan.label()).key("result").raw(to_json(*i.best, false, schema));
  else
    w.key("error").value(i.none->message());
  w.end_object();
  w.key("best_from").value(to_string(i.best_from));
  if (!diff.empty()) w.key("diff").raw(diff);
  if (!i.widened.empty()) {
    w.key("widened").begin_object();
    for (const auto& [dimension, values] : i.widened) {
      w.key(dimension).compact_next().begin_array();
      for (const std::string& value : values) w.value(value);
      w.end_array();
    }
    w.end_object();
  }
  w.key("gain").value(i.gain);
  w.key("tried").value(i.tried);
  w.key("memory_margin").value(i.memory_margin).key("margin_of_present").value(i.margin_of_present);
  w.key("changes").begin_array();
  for (const SingleChange& c : i.changes) write_change(w, c);
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier
