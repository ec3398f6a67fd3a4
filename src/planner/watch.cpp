// SPDX-License-Identifier: Apache-2.0
#include "planner/watch.h"

#include "base/format.h"

namespace espalier::planner {
namespace {

constexpr std::int64_t kLineNs = 1'000'000'000;

}  // namespace

Watch::Watch(const PlannerOptions& options) : options_(options) {}

bool Watch::stopped() {
  if (reason_.load(std::memory_order_relaxed) != SearchEnd::none) return true;
  const double limit_s = options_.time_limit_s.value_or(0);
  const bool watched = limit_s > 0 || options_.progress;
  const std::int64_t now =
      watched ? std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count() : std::int64_t{0};
  if (options_.progress && now >= next_line_ns_.load(std::memory_order_relaxed)) tell();
  SearchEnd found = SearchEnd::none;
  if (options_.interrupted && options_.interrupted())
    found = SearchEnd::interrupted;
  else if (limit_s > 0 && static_cast<double>(now) >= limit_s * 1e9)
    found = SearchEnd::time_limit;
  if (found == SearchEnd::none) return false;
  SearchEnd none = SearchEnd::none;
  reason_.compare_exchange_strong(none, found);  // the first reason stays
  return true;
}

void Watch::stands(const search::Progress& standing) {
  {
    const std::lock_guard lock(telling_);
    standing_ = standing;
    if (options_.observer) observe();
  }
  stopped();  // a line may be due
}

/// Calls the observer if there is news. The caller holds the lock.
void Watch::observe() {
  const search::Progress& now = standing_;
  const auto known = [](std::int64_t value) { return value > 0 ? std::optional(value) : std::nullopt; };
  const std::optional<std::int64_t> bound = known(now.bound_ns);
  const bool better = now.best_ns > 0 && (!observed_.best_ns || now.best_ns < *observed_.best_ns);
  const bool bounded = bound && (bound != observed_.lower_bound_ns || now.phase != observed_.phase);
  if (!better && !bounded) return;
  const std::optional<std::int64_t> best = better ? now.best_ns : observed_.best_ns;
  observed_ = {std::string(now.phase), best, bound, now.done, known(now.total)};
  options_.observer(observed_);
}

void Watch::tell() {
  const std::lock_guard lock(telling_);
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  if (standing_.phase.empty() || now < next_line_ns_.load()) return;
  next_line_ns_.store(now + kLineNs);
  options_.progress(text_of(standing_, static_cast<double>(now) * 1e-9));
}

std::string text_of(const search::Progress& s, double seconds) {
  std::string out = std::string(s.phase) + ": ";
  if (s.total > 0) out += base::grouped(s.done) + " of " + base::grouped(s.total) + " ";
  out += s.unit;
  if (s.best_ns > 0) out += ", best " + base::seconds(s.best_ns);
  if (s.bound_ns > 0) out += ", no plan below " + base::seconds(s.bound_ns);
  return out + ", " + base::grouped(static_cast<std::int64_t>(seconds)) + " s";
}

}  // namespace espalier::planner
