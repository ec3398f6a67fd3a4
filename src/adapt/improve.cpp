// SPDX-License-Identifier: Apache-2.0
#include "espalier/improve.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "planner/memory_margin.h"
#include "planner/single_changes.h"

namespace espalier::adapt {
namespace {

constexpr std::size_t kListed = 8;

/// Returns the margin that the peak of a plan leaves, such that the plan itself satisfies it.
double margin_below(const Prediction& p) {
  const double share = 1 - static_cast<double>(p.peak_memory_bytes) / static_cast<double>(p.memory_limit_bytes);
  const double step = 2 / static_cast<double>(p.memory_limit_bytes);  // room is rounded down to bytes
  return planner::room_of(p.memory_limit_bytes, share) < p.peak_memory_bytes ? std::max(0.0, share - step) : share;
}

bool fits(const std::optional<PlannerResult>& result) { return result && result->prediction.fits; }

/// Sorts the changes, fastest first, and keeps one for each plan.
std::vector<SingleChange> ranked(std::vector<SingleChange> changes, std::int64_t present_ns, bool runs) {
  std::erase_if(changes, [&](const SingleChange& c) { return !c.fits || (runs && c.iteration_ns >= present_ns); });
  std::stable_sort(changes.begin(), changes.end(),
                   [](const SingleChange& a, const SingleChange& b) { return a.iteration_ns < b.iteration_ns; });
  std::set<std::string> seen;
  std::erase_if(changes, [&](const SingleChange& c) { return !seen.insert(c.label).second; });
  if (changes.size() > kListed) changes.erase(changes.begin() + kListed, changes.end());
  return changes;
}

/// Adds to the space the dimensions that the present plan uses but a search leaves off unless the job names them.
std::map<std::string, std::vector<std::string>> widen(const PresentConfiguration& present, SearchSpace& space) {
  std::map<std::string, std::vector<std::string>> out;
  for (const Dimension d : {Dimension::offload, Dimension::overlap_tp}) {
    const std::int64_t now = get(d, present.strategy, present.schedule);
    if (now == 0 || space.allowed.contains(d) || space.forbidden.contains(d)) continue;
    space.allow(d, {0, now});
    out[std::string(to_string(d))] = {value_text(d, 0), value_text(d, now)};
  }
  return out;
}

/// Takes the present plan, or its best single change, if it is faster than the plan found by search. No answer is
/// then slower than either.
Status keep_the_better(const Job& job, Improvement& out) {
  const auto best_ns = [&] { return out.best ? out.best->prediction.iteration_ns : INT64_MAX; };
  if (fits(out.present) && out.present->prediction.iteration_ns < best_ns()) {
    out.best = out.present;
    out.best_from = Improvement::From::present;
  }
  if (out.changes.empty() || out.changes.front().iteration_ns >= best_ns()) return {};
  auto changed = estimate(job, out.changes.front().strategy, out.changes.front().schedule);
  if (!changed) return changed.error();
  out.best = std::move(*changed);
  out.best_from = Improvement::From::change;
  return {};
}

/// Lowers the memory margin to that of the present plan, if it fits with less than the usual margin. Alternatives
/// then leave as much.
void take_its_margin(Improvement& out, Job& searched) {
  if (!fits(out.present) || out.present->prediction.fits_with_margin || searched.search.memory_margin) return;
  searched.search.memory_margin = margin_below(out.present->prediction);
  out.margin_of_present = true;
}

}  // namespace

std::string_view to_string(Improvement::From from) {
  switch (from) {
    case Improvement::From::search: return "search";
    case Improvement::From::present: return "present plan";
    case Improvement::From::change: return "single change";
  }
  return "";
}

Result<Improvement> improve(const Job& job, const PresentConfiguration& present, const PlannerOptions& options) {
  const EngineModel* engine = job.engine_model ? job.engine_model.get() : find_engine(job.engine);
  if (engine == nullptr) return Error{ErrorKind::bad_input, "engine", cat("\"", job.engine, "\""), "a known engine", ""};
  Improvement out;
  if (present.plan) {
    auto now = simulate(job, *present.plan);
    if (!now) return now.error();
    out.present = std::move(*now);
  } else {
    if (present.plan.error().kind != ErrorKind::check_failed) return present.plan.error();
    out.broken = present.plan.error().found;
  }
  Job searched = job;
  out.widened = widen(present, searched.search);
  take_its_margin(out, searched);
  out.memory_margin = planner::memory_margin_of(searched).share;
  auto best = plan(searched, options);
  if (best)
    out.best = std::move(*best);
  else if (best.error().kind == ErrorKind::infeasible)
    out.none = best.error();
  else
    return best.error();
  const std::int64_t now_ns = out.present ? out.present->prediction.iteration_ns : 0;
  auto changes =
      planner::single_changes(searched, *engine, {present.strategy, present.schedule, present.zero, present.overlap}, now_ns);
  out.tried = static_cast<std::int64_t>(changes.size());
  out.changes = ranked(std::move(changes), now_ns, fits(out.present));
  if (Status status = keep_the_better(searched, out); !status.ok()) return status.error();
  if (out.best && now_ns > 0) out.gain = 1 - static_cast<double>(out.best->prediction.iteration_ns) / static_cast<double>(now_ns);
  return out;
}

}  // namespace espalier::adapt
