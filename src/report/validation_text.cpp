// SPDX-License-Identifier: Apache-2.0
#include "espalier/validate.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "espalier/text.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

std::string figure(std::int64_t n, double value) { return n > 0 ? percent(value) : "–"; }

std::vector<std::string> row(const std::string& name, const ValidationSummary& s) {
  return {name,
          cat(grouped(s.evaluated), "/", grouped(s.records)),
          grouped(s.time.n),
          figure(s.time.n, s.time.mean_accuracy),
          figure(s.time.n, s.time.median_accuracy),
          figure(s.time.n, s.time.p90_ape),
          figure(s.time.n, s.time.bias),
          grouped(s.memory.n),
          figure(s.memory.n, s.memory.mape),
          figure(s.memory.n, s.memory.bias),
          s.feasibility.n() > 0 ? percent(s.feasibility.accuracy()) : "–",
          s.ranking.groups > 0 ? fixed(s.ranking.kendall_tau, 2) : "–",
          s.ranking.groups > 0 ? percent(s.ranking.mean_top1_regret) : "–"};
}

std::string skipped_section(const Validation& v) {
  if (v.skipped.empty()) return "";
  std::vector<std::pair<std::string, std::int64_t>> reasons(v.skipped.begin(), v.skipped.end());
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> rows{{"reason for no prediction", "records"}};
  for (const auto& [reason, n] : reasons) rows.push_back({reason, grouped(n)});
  return cat("\n", table(rows, {}, ""));
}

/// Lists lines that are not records, with their place and text.
std::string unreadable_section(const Validation& v) {
  constexpr std::size_t kShown = 10;
  std::string out;
  for (std::size_t i = 0; i < std::min(kShown, v.unreadable.size()); ++i) out += cat("  ", v.unreadable[i].message(), "\n");
  if (v.unreadable.size() > kShown)
    out += cat("  and ", grouped(static_cast<std::int64_t>(v.unreadable.size() - kShown)), " more\n");
  return out.empty() ? out : cat("\nlines that cannot be read\n", out);
}

std::string worst_section(const Validation& v, std::size_t worst) {
  std::vector<const RunResult*> timed;
  for (const RunResult& r : v.results) {
    if (r.measured_s) timed.push_back(&r);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const RunResult* a, const RunResult* b) {
    return std::fabs(a->time_error()) > std::fabs(b->time_error());
  });
  timed.resize(std::min(timed.size(), worst));
  if (timed.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"largest errors", "predicted", "measured", "error", "configuration"}};
  for (const RunResult* r : timed) {
    rows.push_back({r->id, seconds(std::llround(*r->predicted_s * 1e9)), seconds(std::llround(*r->measured_s * 1e9)),
                    percent(r->time_error()), r->label});
  }
  return cat("\n", table(rows, {4}, ""));
}

}  // namespace
}  // namespace espalier::report

namespace espalier {

std::string to_text(const Validation& v, std::size_t worst, std::size_t width) {
  using namespace report;
  std::vector<std::vector<std::string>> rows{{"source", "predicted", "timed", "mean accuracy", "median", "p90 error", "bias",
                                              "memory", "mape", "bias", "fits right", "tau", "regret"}};
  for (const auto& [source, s] : v.by_source) rows.push_back(row(source, s));
  rows.push_back(row("all", v.all));
  return lay_out(cat(table(rows, {}, ""), skipped_section(v), unreadable_section(v), worst_section(v, worst)), width);
}

}  // namespace espalier
