// SPDX-License-Identifier: Apache-2.0
#include "espalier/improve.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "espalier/configuration.h"
#include "job/engine_defaults.h"
#include "job/space_values.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "planner/legality.h"
#include "planner/memory_margin.h"

namespace espalier {
namespace {

using base::cat;
using D = Dimension;

constexpr std::size_t kListed = 8;
constexpr std::size_t kNear = 3;  ///< values to either side, of dimensions with many

/// dp follows from the others; overlap_tp is no part of the space unless the job names it.
bool is_free(Dimension d, const Job& job) {
  return d != D::dp && (d != D::overlap_tp || job.search.allow.contains(std::string(to_string(d))));
}

/// Values of the dimension, the nearest ones where there are many.
std::vector<std::int64_t> values_near(Dimension d, std::int64_t now, const Job& job) {
  std::vector<std::int64_t> all = job::possible_values(d, job);
  if (all.size() <= 2 * kNear + 2) return all;
  const auto at = std::lower_bound(all.begin(), all.end(), now);
  const auto before = std::min<std::ptrdiff_t>(at - all.begin(), kNear),
             after = std::min<std::ptrdiff_t>(all.end() - at, kNear + 1);
  return {at - before, at + after};
}

class Changes {
 public:
  Changes(const Job& job, const EngineModel& engine, const PresentConfiguration& present)
      : job_(job), engine_(engine), present_(present) {}

  std::vector<SingleChange> all(std::int64_t present_ns, std::int64_t& tried) {
    std::vector<SingleChange> out;
    for (int i = 0; i < kDimensions; ++i) {
      const auto d = static_cast<Dimension>(i);
      if (!is_free(d, job_)) continue;
      const std::int64_t now = get(d, present_.strategy, present_.schedule);
      for (const std::int64_t value : values_near(d, now, job_)) {
        if (value == now || !job_.search.admits(std::string(to_string(d)), value)) continue;
        auto change = changed(d, now, value);
        if (!change) continue;
        ++tried;
        if (present_ns > 0) change->gain = 1 - static_cast<double>(change->iteration_ns) / static_cast<double>(present_ns);
        out.push_back(std::move(*change));
      }
    }
    return out;
  }

 private:
  /// What depends on the dimension that changed.
  void follow(Dimension d, Strategy& s, Schedule& c) const {
    s.dp = 0;
    if (d != D::shard) s.shard = 0;
    c.microbatches = 0;
    if (s.tp == 1) s.sp = SequenceParallel::none;
    if (d == D::tp && present_.strategy.tp == 1) s.sp = job::engine_defaults(job_.engine).sp;
    if (d == D::tp && present_.strategy.etp == present_.strategy.tp) s.etp = present_.strategy.etp == 1 ? 1 : s.tp;
    if (d == D::vpp) c.kind = c.virtual_stages > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    if (d == D::schedule)
      c.virtual_stages = c.kind == ScheduleKind::interleaved || c.kind == ScheduleKind::zb_v ? std::max(2, c.virtual_stages) : 1;
    if (d == D::pp && c.stages == 1) {
      c.virtual_stages = 1;
      c.kind = ScheduleKind::one_f_one_b;
    }
    // A number of recomputed blocks that was all of them is all of them again.
    if (d != D::recompute_layers) s.recompute.layers = 0;
    if (s.cp == 1) s.cp_kind = ContextParallelKind::ring;
  }

  std::optional<SingleChange> changed(Dimension d, std::int64_t now, std::int64_t value) const {
    Strategy s = present_.strategy;
    Schedule c = present_.schedule;
    s.zero = present_.zero;
    s.overlap = present_.overlap;
    set(d, value, s, c);
    const Overlap wanted = s.overlap;
    follow(d, s, c);
    complete_configuration(job_, s, c);
    if (s.data_ranks() == 1 && d != D::zero) s.zero = ZeroStage::none;
    if (!shards_optimizer(s.zero)) s.shard = 1;
    s.overlap = job::usable_overlap(wanted, engine_, job_, s, c);
    if (get(d, s, c) != value || planner::illegal(job_, engine_, s, c)) return std::nullopt;
    const auto result = estimate(job_, s, c);
    if (!result) return std::nullopt;
    const Prediction& p = result->prediction;
    return SingleChange{cat(to_string(d), " ", value_text(d, now), " -> ", value_text(d, value)),
                        result->plan.label(),
                        p.iteration_ns,
                        p.peak_memory_bytes,
                        p.fits && p.fits_with_margin,
                        0};
  }

  const Job& job_;
  const EngineModel& engine_;
  const PresentConfiguration& present_;
};

/// The margin that the peak of a plan leaves, so that the plan itself is within it.
double margin_below(const Prediction& p) {
  const double share = 1 - static_cast<double>(p.peak_memory_bytes) / static_cast<double>(p.memory_limit_bytes);
  const double step = 2 / static_cast<double>(p.memory_limit_bytes);  // room is rounded down to bytes
  return planner::room_of(p.memory_limit_bytes, share) < p.peak_memory_bytes ? std::max(0.0, share - step) : share;
}

/// Fastest first, one for each plan.
std::vector<SingleChange> ranked(std::vector<SingleChange> changes, std::int64_t present_ns, bool runs) {
  std::erase_if(changes, [&](const SingleChange& c) { return !c.fits || (runs && c.iteration_ns >= present_ns); });
  std::stable_sort(changes.begin(), changes.end(),
                   [](const SingleChange& a, const SingleChange& b) { return a.iteration_ns < b.iteration_ns; });
  std::set<std::string> seen;
  std::erase_if(changes, [&](const SingleChange& c) { return !seen.insert(c.label).second; });
  if (changes.size() > kListed) changes.erase(changes.begin() + kListed, changes.end());
  return changes;
}

}  // namespace

Result<Improvement> improve(const Job& job, const PresentConfiguration& present, const PlannerOptions& options) {
  const EngineModel* engine = job.engine_model ? job.engine_model.get() : find_engine(job.engine);
  if (engine == nullptr) return Error{ErrorKind::bad_input, "engine", cat("\"", job.engine, "\""), "one that is known", ""};
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
  if (out.present && out.present->prediction.fits && !out.present->prediction.fits_with_margin && !job.search.memory_margin) {
    searched.search.memory_margin = margin_below(out.present->prediction);
    out.margin_of_present = true;
  }
  out.memory_margin = planner::memory_margin_of(searched).share;
  auto best = plan(searched, options);
  if (best)
    out.best = std::move(*best);
  else if (best.error().kind == ErrorKind::infeasible)
    out.none = best.error();
  else
    return best.error();
  const std::int64_t now_ns = out.present ? out.present->prediction.iteration_ns : 0;
  const bool runs = out.present && out.present->prediction.fits;
  if (out.best && now_ns > 0) out.gain = 1 - static_cast<double>(out.best->prediction.iteration_ns) / static_cast<double>(now_ns);
  out.changes = ranked(Changes(searched, *engine, present).all(now_ns, out.tried), now_ns, runs);
  return out;
}

}  // namespace espalier
