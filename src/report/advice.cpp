// SPDX-License-Identifier: Apache-2.0
#include "report/advice.h"

#include <algorithm>

#include "base/format.h"

namespace espalier::report {
namespace {

constexpr double kWorthSaying = 0.005;  ///< share of the step below which advice is not worth a sentence

/// Returns the nanoseconds that a change takes off the part.
std::int64_t less(const SingleChange& change, const planner::TimePart& part) {
  for (const planner::TimePart& other : planner::time_parts(change.breakdown))
    if (other.kind == part.kind) return part.ns - other.ns;
  return 0;
}

/// Returns whether the change is useful: it fits and shortens the step.
bool gains(const SingleChange& c) { return c.fits && c.gain > 0; }

std::string clause(const SingleChange& c, std::int64_t off, const Prediction& p) {
  const std::string what = cat(c.change, " takes ", seconds(off), " off it");
  if (gains(c)) return cat(what, " and ", percent(c.gain), " off the step");
  if (!c.fits)
    return cat(what, ", but needs ", gib(c.peak_memory_bytes), " of ", gib(p.memory_limit_bytes),
               c.peak_memory_bytes <= p.memory_limit_bytes ? ", which is more than the memory margin allows" : "");
  return cat(what, ", but the step grows by ", percent(-c.gain));
}

}  // namespace

std::string advice(const planner::TimePart& part, const PlannerResult& result) {
  const Prediction& p = result.prediction;
  const auto least = static_cast<std::int64_t>(kWorthSaying * static_cast<double>(p.iteration_ns));
  const SingleChange* best = nullptr;
  std::int64_t best_off = 0;
  for (const SingleChange& c : result.changes) {
    const std::int64_t off = less(c, part);
    if (off < least) continue;
    const bool better = best == nullptr || std::pair(gains(c), gains(c) ? c.gain : static_cast<double>(off)) >
                                               std::pair(gains(*best), gains(*best) ? best->gain : static_cast<double>(best_off));
    if (!better) continue;
    best = &c;
    best_off = off;
  }
  return best == nullptr ? std::string() : clause(*best, best_off, p);
}

}  // namespace espalier::report
