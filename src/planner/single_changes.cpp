// SPDX-License-Identifier: Apache-2.0
#include "planner/single_changes.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/format.h"
#include "espalier/configuration.h"
#include "job/engine_defaults.h"
#include "job/space_values.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "planner/estimate.h"
#include "planner/legality.h"
#include "planner/plan_layers.h"
#include "planner/prediction.h"

namespace espalier::planner {
namespace {

using D = Dimension;

constexpr std::size_t kNear = 3;  ///< values to either side, for dimensions with many

/// Returns whether a dimension may change. dp follows from the others; overlap_tp is not part of the space unless the
/// job names it.
bool is_free(Dimension d, const Job& job) { return d != D::dp && (d != D::overlap_tp || job.search.allowed.contains(d)); }

/// Returns the values of the dimension; if there are many, the nearest ones.
std::vector<std::int64_t> values_near(Dimension d, std::int64_t now, const Job& job) {
  std::vector<std::int64_t> all = job::possible_values(d, job);
  if (all.size() <= 2 * kNear + 2) return all;
  const auto at = std::lower_bound(all.begin(), all.end(), now);
  const auto before = std::min<std::ptrdiff_t>(at - all.begin(), kNear),
             after = std::min<std::ptrdiff_t>(all.end() - at, kNear + 1);
  return {at - before, at + after};
}

/// Sets what depends on the dimension that changed.
void follow(const Job& job, const ChangeBase& base, Dimension d, Strategy& s, Schedule& c) {
  s.dp = 0;
  if (d != D::shard) s.shard = 0;
  c.microbatches = 0;
  if (s.tp == 1) s.sp = SequenceParallel::none;
  if (d == D::tp && base.strategy.tp == 1) s.sp = job::engine_defaults(job.engine).sp;
  if (d == D::tp && base.strategy.etp == base.strategy.tp) s.etp = base.strategy.etp == 1 ? 1 : s.tp;
  if (d == D::vpp) c.kind = c.virtual_stages > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (d == D::schedule) c.virtual_stages = has_chunks(c.kind) ? std::max(2, c.virtual_stages) : 1;
  if (d == D::pp && c.stages == 1) {
    c.virtual_stages = 1;
    c.kind = ScheduleKind::one_f_one_b;
  }
  // A number of recomputed blocks that covered all blocks covers all of them again.
  if (d != D::recompute_layers) s.recompute.layers = 0;
  if (s.cp == 1) s.cp_kind = ContextParallelKind::ring;
}

std::optional<SingleChange> changed(const Job& job, const EngineModel& engine, const ChangeBase& base, Dimension d,
                                    std::int64_t now, std::int64_t value) {
  Strategy s = base.strategy;
  Schedule c = base.schedule;
  s.zero = base.zero;
  s.overlap = base.overlap;
  set(d, value, s, c);
  const Overlap wanted = s.overlap;
  follow(job, base, d, s, c);
  complete_configuration(job, s, c);
  if (s.data_ranks() == 1 && d != D::zero) s.zero = ZeroStage::none;
  if (!s.shards_optimizer()) s.shard = 1;
  s.overlap = job::usable_overlap(wanted, engine, job, s, c);
  if (get(d, s, c) != value || !illegal(job, engine, s, c).ok()) return std::nullopt;
  const auto p = predict_with(job, engine, s, c);
  if (!p) return std::nullopt;
  SingleChange out;
  out.dimension = to_string(d);
  out.change = cat(to_string(d), " ", value_text(d, now), " -> ", value_text(d, value));
  out.strategy = s;
  out.schedule = c;
  out.label = document_of(job, engine, s, c).label();
  out.iteration_ns = p->iteration_ns;
  out.peak_memory_bytes = p->peak_memory_bytes;
  out.fits = p->fits && p->fits_with_margin;
  out.breakdown = p->bottleneck.breakdown;
  return out;
}

}  // namespace

std::vector<SingleChange> single_changes(const Job& job, const EngineModel& engine, const ChangeBase& base, std::int64_t now_ns) {
  std::vector<SingleChange> out;
  for (int i = 0; i < kDimensions; ++i) {
    const auto d = static_cast<Dimension>(i);
    if (!is_free(d, job)) continue;
    const std::int64_t now = get(d, base.strategy, base.schedule);
    for (const std::int64_t value : values_near(d, now, job)) {
      if (value == now || !job.search.admits(d, value)) continue;
      auto change = changed(job, engine, base, d, now, value);
      if (!change) continue;
      if (now_ns > 0) change->gain = 1 - static_cast<double>(change->iteration_ns) / static_cast<double>(now_ns);
      out.push_back(std::move(*change));
    }
  }
  return out;
}

void add_single_changes(const Job& job, PlannerResult& result) {
  const auto own = uniform_configuration(result.plan);
  const auto engine = engine_of(job);
  if (!engine || !own || !job.cluster.equal_devices()) return;
  const auto& [s, schedule] = *own;
  if (!s.partition.empty() || !illegal(job, **engine, s, schedule).ok()) return;
  result.changes = single_changes(job, **engine, {s, schedule, s.zero, s.overlap}, result.prediction.iteration_ns);
}

}  // namespace espalier::planner
