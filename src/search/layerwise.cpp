// SPDX-License-Identifier: Apache-2.0
#include "search/layerwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/parallel.h"
#include "search/group_solver.h"
#include "search/layered_candidate.h"

namespace espalier::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Fixed sizes: they shape the order of work, so they must not depend on the number of threads.
constexpr std::size_t kBatch = 4;   // groups solved side by side
constexpr std::size_t kKept = 64;   // simulated candidates remembered
constexpr std::size_t kStarts = 6;  // uniform plans that are refined

class LayerwiseSearch {
 public:
  LayerwiseSearch(const Problem& problem, Evaluator& evaluator, const LayerwiseOptions& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space, problem.partitions),
        book_(problem),
        incumbent_(options.uniform ? static_cast<double>(options.uniform->iteration_ns) : kNever) {}

  LayerwiseOutcome run() {
    groups_ = groups_by_bound();
    const std::vector<Group>& groups = groups_;
    out_.outer = static_cast<std::int64_t>(groups.size());
    double open = kNever;  // least bound of what is not closed
    std::size_t next = 0;
    while (next < groups.size() && groups[next].bound_ns < incumbent_ && !stop()) {
      const std::size_t end = std::min(groups.size(), next + kBatch);
      std::vector<GroupResult> results(end - next);
      base::parallel_for(end - next, std::max(1, options_.threads), 1, [&](std::size_t i, int worker) {
        if (groups[next + i].bound_ns < incumbent_) results[i] = solve(groups[next + i], worker);
      });
      for (GroupResult& r : results) {
        open = std::min(open, r.bound_ns);
        take(r);
      }
      next = end;
      if (options_.progress) options_.progress(std::to_string(groups.size() - next) + " pipelines and batches left");
    }
    if (next < groups.size()) open = std::min(open, groups[next].bound_ns);
    finish(open);
    return std::move(out_);
  }

 private:
  bool stop() {
    if (options_.interrupted && options_.interrupted()) out_.interrupted = true, out_.complete = false;
    if (options_.node_limit > 0 && out_.simulations >= options_.node_limit) out_.complete = false;
    return !out_.complete;
  }

  std::vector<Group> groups_by_bound() const {
    std::map<std::pair<std::int32_t, std::int64_t>, Group> all;
    space_.layer_group([&](const Configuration& c) {
      if (c.strategy.order == RankOrder::tp_cp_pp_dp && c.schedule.stages > 1) return;  // its stages are others
      const std::int64_t samples = std::int64_t{c.schedule.micro_batch} * c.strategy.dp;
      Group& g = all[{c.schedule.stages, samples}];
      g.stages = c.schedule.stages, g.samples = samples, g.microbatches = c.schedule.microbatches;
      g.bases.push_back(c);
    });
    std::vector<Group> groups;
    for (auto& [key, g] : all) groups.push_back(std::move(g));
    base::parallel_for(groups.size(), std::max(1, options_.threads), 1,
                       [&](std::size_t i, int) { groups[i].bound_ns = work_bound(groups[i]); });
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
      return std::tuple(a.bound_ns, a.stages, a.samples) < std::tuple(b.bound_ns, b.stages, b.samples);
    });
    return groups;
  }

  /// max(W, m·W/p), W = Σ over layers of the least time of one micro-batch under any base: recomputation and ZeRO add to it.
  [[nodiscard]] double work_bound(const Group& g) const {
    std::vector<std::int64_t> least(problem_.model->kinds.size(), std::numeric_limits<std::int64_t>::max());
    std::vector<cost::LayerCost> layers;
    for (const Configuration& c : g.bases) {
      cost::layer_costs(book_.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, layers);
      for (std::size_t k = 0; k < least.size(); ++k)
        least[k] = std::min(least[k], layers[k].forward.duration_ns() + layers[k].backward.duration_ns());
    }
    double work = 0;
    for (std::size_t k = 0; k < least.size(); ++k)
      work += static_cast<double>(book_.kind_counts()[k]) * static_cast<double>(least[k]);
    return std::max(work, work * g.microbatches / g.stages);
  }

  GroupResult solve(const Group& group, int worker) {
    const OptionTable table(problem_, space_, book_, group.bases, options_.interrupted);
    if (options_.interrupted && options_.interrupted()) {
      GroupResult nothing;
      nothing.bound_ns = group.bound_ns;
      return nothing;
    }
    return GroupSolver(problem_, book_, evaluator_, worker, group, table, incumbent_, options_.interrupted).run();
  }

  void take(GroupResult& r) {
    out_.solved += r.priced > 0 ? 1 : 0;
    out_.strategies += r.priced, out_.leaves += r.kept, out_.simulations += r.simulations;
    for (LayeredCandidate& c : r.candidates) {
      const auto ns = static_cast<double>(c.iteration_ns);
      const bool better = ns < incumbent_ || (out_.best && c.iteration_ns == out_.best->iteration_ns &&
                                              canonical_less(c.configuration, out_.best->configuration));
      if (!better) continue;
      out_.simulated.push_back(c);
      incumbent_ = ns, out_.best = std::move(c);
    }
  }

  void finish(double open) {
    if (out_.best) improve();
    refine_uniform();
    std::stable_sort(out_.simulated.begin(), out_.simulated.end(),
                     [](const LayeredCandidate& a, const LayeredCandidate& b) { return a.iteration_ns < b.iteration_ns; });
    if (out_.simulated.size() > kKept) out_.simulated.resize(kKept);
    const double bound = std::min(open, incumbent_);
    out_.lower_bound_ns = std::isfinite(bound) ? static_cast<std::int64_t>(std::floor(bound)) : 0;
  }

  /// The group that a plan belongs to; null if it is in none.
  [[nodiscard]] const Group* group_of(const Schedule& s) const {
    for (const Group& g : groups_)
      if (g.stages == s.stages && g.microbatches == s.microbatches) return &g;
    return nullptr;
  }

  GroupSolver solver(const Group& group, const OptionTable& table) {
    return {problem_, book_, evaluator_, 0, group, table, kNever, options_.interrupted};
  }

  void improve() {
    const Group* group = group_of(out_.best->configuration.schedule);
    if (group == nullptr || stop()) return;
    const Schedule s = out_.best->configuration.schedule;
    const OptionTable table(problem_, space_, book_, group->bases);
    if (options_.balance_report && s.stages > 1 && s.virtual_stages == 1) {
      GroupResult looked;
      out_.balance = solver(*group, table).balance(*out_.best, looked);
      take(looked);
    }
    if (stop()) return;
    GroupResult more = solver(*group, table).refine(*out_.best);
    take(more);
  }

  /// The fastest uniform plans of different pipelines, with single layers changed.
  void refine_uniform() {
    std::set<std::tuple<std::int32_t, std::int32_t, ScheduleKind>> seen;
    for (const Candidate& c : options_.starts) {
      const Configuration& u = c.configuration;
      if (u.strategy.order == RankOrder::tp_cp_pp_dp && u.schedule.stages > 1) continue;
      if (u.schedule.kind == ScheduleKind::gpipe) continue;
      if (seen.size() >= kStarts || stop()) return;
      if (seen.insert({u.schedule.stages, u.schedule.microbatches, u.schedule.kind}).second) refine_uniform(c);
    }
  }

  void refine_uniform(const Candidate& candidate) {
    const Configuration& u = candidate.configuration;
    const Group* group = group_of(u.schedule);
    if (group == nullptr) return;
    const OptionTable table(problem_, space_, book_, group->bases);
    book_.prepare(u.schedule.stages);
    std::optional<LayeredCandidate> start = as_layered(*problem_.model, table, u, book_.split(u.schedule));
    if (!start) return;
    start->iteration_ns = candidate.iteration_ns;
    GroupResult more = solver(*group, table).refine(*start);
    take(more);
  }

  const Problem& problem_;
  Evaluator& evaluator_;
  const LayerwiseOptions& options_;
  Space space_;
  CostBook book_;
  double incumbent_;
  std::vector<Group> groups_;
  LayerwiseOutcome out_;
};

}  // namespace

LayerwiseOutcome layerwise(const Problem& problem, Evaluator& evaluator, const LayerwiseOptions& options) {
  return LayerwiseSearch(problem, evaluator, options).run();
}

}  // namespace espalier::search
