// SPDX-License-Identifier: Apache-2.0
#include "report/phase_text.h"

#include <vector>

#include "base/format.h"
#include "planner/search_budgets.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

std::string state_of(const PhaseSummary& p) {
  if (p.left_out) return "left out";
  return p.complete ? "complete" : "not finished";
}

}  // namespace

std::string phases_text(const SearchSummary& s) {
  if (s.phases.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"phase", "", "bounded", "lowered", "simulated", "no plan below", "wall clock"}};
  for (const PhaseSummary& p : s.phases) {
    const std::string bound = p.lower_bound_ns > 0 ? seconds(p.lower_bound_ns) : std::string("unknown");
    const auto counted = [&p](SearchCounter counter) { return grouped(count_of(p.counters, counter)); };
    rows.push_back({p.name, state_of(p), counted(SearchCounter::bounded), counted(SearchCounter::lowered),
                    counted(SearchCounter::simulated), bound, cat(fixed(p.seconds, 2), " s")});
  }
  return table(rows, {0, 1});
}

std::string budgets_text() {
  std::vector<std::vector<std::string>> rows{{"budget (*: it shapes the answer)", "at most", ""}};
  for (const planner::BudgetRow& b : planner::budgets())
    rows.push_back(
        {cat(b.name, b.shapes_answer ? " *" : ""), grouped(static_cast<std::int64_t>(b.value)), std::string(b.bounds)});
  return table(rows, {0, 2});
}

}  // namespace espalier::report
