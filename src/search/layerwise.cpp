// SPDX-License-Identifier: Apache-2.0
#include "search/layerwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/infinity.h"
#include "base/invariant.h"
#include "base/parallel.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "search/budgets.h"
#include "search/group_solver.h"
#include "search/layered_candidate.h"
#include "search/layered_rules.h"
#include "search/plan_prints.h"
#include "search/stage_report.h"

namespace espalier::search {
namespace {

using base::kInfinity;
// These sizes are fixed. They shape the order of work, so they must not depend on the number of threads.
constexpr std::size_t kGroupsAtOnce = 4;  // groups solved concurrently
constexpr std::size_t kKeptPlans = 64;    // simulated candidates kept

class LayerwiseSearch {
 public:
  LayerwiseSearch(const Problem& problem, Evaluator& evaluator, const LayerwiseOptions& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space, problem.partitions),
        book_(problem),
        incumbent_(options.uniform ? static_cast<double>(options.uniform->iteration_ns) : kInfinity) {
    out_.prints = options.simulated;
  }

  LayerwiseOutcome run() {
    groups_ = groups_by_bound();
    const std::vector<GroupChoices>& groups = groups_;
    out_.outer = static_cast<std::int64_t>(groups.size());
    double open = kInfinity;  // least bound of the groups that are not closed
    std::size_t next = 0;
    while (next < groups.size() && groups[next].bound_ns < incumbent_ && !stop()) {
      const std::size_t end = std::min(groups.size(), next + kGroupsAtOnce);
      std::vector<GroupResult> results(end - next);
      const Patience patience = patience_of(end - next);
      base::parallel_for(end - next, std::max(1, options_.threads), 1, [&](std::size_t i, int worker) {
        if (groups[next + i].bound_ns < incumbent_) results[i] = solve(groups[next + i], worker, patience);
      });
      for (GroupResult& r : results) {
        open = std::min(open, r.bound_ns);
        take(r);
      }
      next = end;
      report("pipelines and batches", next, groups.size(),
             std::min(open, next < groups.size() ? groups[next].bound_ns : kInfinity));
    }
    if (next < groups.size()) open = std::min(open, groups[next].bound_ns);
    finish(open);
    stopped();  // records the reason why a group was cut short
    return std::move(out_);
  }

 private:
  bool stopped() {
    if (options_.interrupted && options_.interrupted()) {
      out_.interrupted = true;
      out_.complete = false;
    }
    return out_.interrupted;
  }
  bool stop() {
    if (options_.node_limit > 0 && out_.simulations >= options_.node_limit) out_.complete = false;
    return stopped() || !out_.complete;
  }

  /// Returns the limits of one of `groups` groups that are solved concurrently.
  [[nodiscard]] Patience patience_of(std::size_t groups) const {
    Patience p{options_.interrupted, 0};
    if (options_.node_limit > 0)
      p.budget = std::max<std::int64_t>(1, (options_.node_limit - out_.simulations) / static_cast<std::int64_t>(groups));
    return p;
  }

  void report(std::string_view unit, std::size_t done, std::size_t total, double bound) const {
    if (!options_.progress) return;
    const auto ns = [](double x) { return std::isfinite(x) ? static_cast<std::int64_t>(x) : 0; };
    options_.progress({"layer-wise", static_cast<std::int64_t>(done), static_cast<std::int64_t>(total), unit, ns(incumbent_),
                       ns(std::min(bound, incumbent_))});
  }

  std::vector<GroupChoices> groups_by_bound() {
    std::map<std::tuple<std::int32_t, std::int64_t, LayerClass>, GroupChoices> all;
    space_.layer_group([&](const Configuration& c) {
      // Its stages have other devices.
      if (c.strategy.order == RankOrder::tp_cp_pp_dp && c.schedule.stages > 1) return;
      const std::int64_t samples = std::int64_t{c.schedule.micro_batch} * c.strategy.dp;
      for (const LayerClass& shared : classes_below(c)) {
        GroupChoices& g = all[{c.schedule.stages, samples, shared}];
        g.stages = c.schedule.stages;
        g.samples = samples;
        g.microbatches = c.schedule.microbatches;
        g.shared = shared;
        g.bases.push_back(c);
      }
    });
    std::vector<GroupChoices> groups;
    for (auto& [key, g] : all) groups.push_back(std::move(g));
    // A group that is not bounded in time keeps the bound 0, and none of the others is solved.
    base::parallel_for(groups.size(), std::max(1, options_.threads), 1, [&](std::size_t i, int) {
      if (!options_.interrupted || !options_.interrupted()) groups[i].bound_ns = work_bound(groups[i]);
    });
    std::sort(groups.begin(), groups.end(), [](const GroupChoices& a, const GroupChoices& b) {
      return std::tie(a.bound_ns, a.stages, a.samples, a.shared) < std::tie(b.bound_ns, b.stages, b.samples, b.shared);
    });
    return groups;
  }

  /// Returns the classes of plans whose layers have strategies of this choice; one class where the engine restricts
  /// nothing.
  [[nodiscard]] std::set<LayerClass> classes_below(const Configuration& c) const {
    const LayerFreedom& freedom = problem_.engine->layers;
    if (is_unrestricted(freedom)) return {LayerClass{}};
    std::set<LayerClass> out;
    space_.shard_group(c, [&](const Configuration& shard) {
      for (const Recompute& how : space_.layer_recomputes()) {
        if (how.modules != c.strategy.recompute.modules) continue;
        Strategy s = shard.strategy;
        s.recompute = how;
        if (!engine_allows(*problem_.engine, space_.facts(), s, shard.schedule)) continue;
        for (LayerClass& shared : classes_of(freedom, s)) out.insert(std::move(shared));
      }
    });
    return out;
  }

  /// Returns max(W, m·W/p), where W = Σ over layers of the least time of one micro-batch under any base.
  /// Recomputation and ZeRO only add to it.
  [[nodiscard]] double work_bound(const GroupChoices& g) const {
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

  GroupResult solve(const GroupChoices& group, int worker, const Patience& patience) {
    const OptionTable table(problem_, space_, book_, group.bases, group.shared, options_.interrupted);
    if (options_.interrupted && options_.interrupted()) {
      GroupResult nothing;
      nothing.bound_ns = group.bound_ns;
      nothing.complete = false;
      return nothing;
    }
    return GroupSolver({problem_, space_, book_, evaluator_, worker, group, table}, incumbent_, patience).run();
  }

  void take(GroupResult& r) {
    out_.solved += r.priced > 0 ? 1 : 0;
    out_.strategies += r.priced;
    out_.leaves += r.kept;
    out_.complete = out_.complete && r.complete;
    for (const std::uint64_t print : r.simulated) out_.simulations += out_.prints.insert(print).second ? 1 : 0;
    for (LayeredCandidate& c : r.candidates) {
      const auto ns = static_cast<double>(c.iteration_ns);
      const bool better = ns < incumbent_ || (out_.best && c.iteration_ns == out_.best->iteration_ns &&
                                              canonical_less(c.configuration, out_.best->configuration));
      if (!better) continue;
      ESPALIER_CHECK(c.peak_bytes <= book_.memory_limit() && c.options.size() == problem_.model->layers.size());
      out_.simulated.push_back(c);
      incumbent_ = ns;
      out_.best = std::move(c);
    }
  }

  void finish(double open) {
    if (out_.best) look_at_stages();
    refine_uniform();
    if (out_.best && out_.balance.rows.empty())
      look_at_stages();  // the first plan faster than the uniform ones derives from the best of them
    refine_answer();
    std::stable_sort(out_.simulated.begin(), out_.simulated.end(),
                     [](const LayeredCandidate& a, const LayeredCandidate& b) { return a.iteration_ns < b.iteration_ns; });
    if (out_.simulated.size() > kKeptPlans) out_.simulated.resize(kKeptPlans);
    const double bound = std::min(open, incumbent_);
    out_.lower_bound_ns = std::isfinite(bound) ? static_cast<std::int64_t>(std::floor(bound)) : 0;
    ESPALIER_CHECK(!out_.best || out_.lower_bound_ns <= out_.best->iteration_ns);
  }

  /// Returns the group that a plan belongs to; null if there is none.
  [[nodiscard]] const GroupChoices* group_of(const Schedule& s, const std::vector<Strategy>& blocks) const {
    const LayerFreedom& freedom = problem_.engine->layers;
    for (const GroupChoices& g : groups_) {
      if (g.stages != s.stages || g.microbatches != s.microbatches) continue;
      const auto fits = [&](const Strategy& own) { return admits(freedom, g.shared, own, true); };
      if (is_unrestricted(freedom) || std::all_of(blocks.begin(), blocks.end(), fits)) return &g;
    }
    return nullptr;
  }
  [[nodiscard]] const GroupChoices* group_of(const Candidate& c) const {
    return group_of(c.configuration.schedule, {c.configuration.strategy});
  }
  [[nodiscard]] const GroupChoices* group_of(const LayeredCandidate& c) const {
    std::vector<Strategy> blocks;
    for (const auto& ranges : c.configuration.chunks)
      for (const LayerRange& r : ranges)
        if (has_block(r)) blocks.push_back(r.strategy);
    return group_of(c.configuration.schedule, blocks);
  }
  [[nodiscard]] bool has_block(const LayerRange& r) const {
    for (std::int32_t l = r.first; l <= r.last; ++l)
      if (problem_.model->layer(static_cast<std::size_t>(l)).role == LayerRole::block) return true;
    return false;
  }

  [[nodiscard]] OptionTable table_of(const GroupChoices& group) const {
    return {problem_, space_, book_, group.bases, group.shared, options_.interrupted};
  }

  /// Compares the stages of the answer with those of other partitions, and refines them on the way.
  void look_at_stages() {
    const LayeredCandidate from = *out_.best;
    const Schedule s = from.configuration.schedule;
    const GroupChoices* group = group_of(from);
    if (group == nullptr || stop() || !options_.balance_report || s.stages == 1 || s.virtual_stages > 1) return;
    const OptionTable table = table_of(*group);
    if (stop()) return;
    GroupResult looked;
    report("stages", 0, 1, kInfinity);
    out_.balance = stage_report({problem_, space_, book_, evaluator_, 0, *group, table}, from, patience_of(1), looked);
    take(looked);
  }

  void refine(const GroupChoices& group, const OptionTable& table, const LayeredCandidate& from, LayerRefinement::Depth depth,
              std::int64_t tries, Refinement& done) {
    const Patience patience = patience_of(1);
    GroupSolver solver({problem_, space_, book_, evaluator_, 0, group, table}, kInfinity, patience);
    GroupResult more = solver.refine(from, depth, tries, done);
    take(more);
  }

  static std::int64_t tries_within(const Schedule& s, std::int64_t tries, std::int64_t instructions) {
    const std::int64_t each = 7 * std::int64_t{s.stages} * s.virtual_stages * s.microbatches;
    return std::min(tries, instructions / std::max<std::int64_t>(1, each));
  }

  /// Makes the fastest uniform plans of different pipelines faster, at the places where strategies change anyway.
  void refine_uniform() {
    std::set<std::tuple<std::int32_t, std::int32_t, ScheduleKind>> seen;
    for (const Candidate& c : options_.starts) {
      const Schedule& s = c.configuration.schedule;
      if (seen.size() >= kLayerStarts || stop()) return;
      const GroupChoices* group = group_of(c);
      if (group == nullptr || s.virtual_stages > kMostLayerwiseChunks || !seen.insert({s.stages, s.microbatches, s.kind}).second)
        continue;
      const OptionTable table = table_of(*group);
      const std::optional<LayeredCandidate> start = layered(c, table);
      Refinement done;
      report("starts", seen.size(), kLayerStarts, kInfinity);
      if (start && !stop())
        refine(*group, table, *start, LayerRefinement::Depth::edges, tries_within(s, kStartTries, kStartInstructions), done);
    }
  }

  std::optional<LayeredCandidate> layered(const Candidate& c, const OptionTable& table) {
    book_.prepare(c.configuration.schedule.stages);
    std::optional<LayeredCandidate> out =
        as_layered(*problem_.model, table, c.configuration, book_.split(c.configuration.schedule));
    const bool foreign =
        out && !is_unrestricted(problem_.engine->layers) && !layered_fault(*problem_.model, space_, out->configuration).empty();
    // Some blocks of each chunk are recomputed, and layers may not differ in that.
    if (foreign) return std::nullopt;
    if (out) {
      out->iteration_ns = c.iteration_ns;
      out->peak_bytes = c.peak_bytes;
    }
    return out;
  }

  /// Tries every single change of the answer, layer-wise or uniform; a change that makes it faster updates the
  /// answer.
  void refine_answer() {
    if (stop() || (!out_.best && !options_.uniform)) return;
    const Schedule s = out_.best ? out_.best->configuration.schedule : options_.uniform->configuration.schedule;
    const GroupChoices* group = out_.best ? group_of(*out_.best) : group_of(*options_.uniform);
    if (group == nullptr || s.virtual_stages > kMostLayerwiseChunks) return;
    const OptionTable table = table_of(*group);
    const std::optional<LayeredCandidate> start = out_.best ? out_.best : layered(*options_.uniform, table);
    report("changes of the answer", 0, 0, kInfinity);
    if (!start || stop()) return;
    out_.refinement.emplace();
    refine(*group, table, *start, LayerRefinement::Depth::all, tries_within(s, kAnswerTries, kAnswerInstructions),
           *out_.refinement);
  }

  const Problem& problem_;
  Evaluator& evaluator_;
  const LayerwiseOptions& options_;
  Space space_;
  CostBook book_;
  double incumbent_;
  std::vector<GroupChoices> groups_;
  LayerwiseOutcome out_;
};

}  // namespace

std::set<std::uint64_t> prints_of(const Problem& problem, const std::vector<Candidate>& uniform) {
  CostBook book(problem);
  std::set<std::uint64_t> prints;
  for (const Candidate& c : uniform) {
    book.prepare(c.configuration.schedule.stages);
    prints.insert(print_of(*problem.model, c.configuration, book.split(c.configuration.schedule)));
  }
  return prints;
}

LayerwiseOutcome layerwise(const Problem& problem, Evaluator& evaluator, const LayerwiseOptions& options) {
  return LayerwiseSearch(problem, evaluator, options).run();
}

}  // namespace espalier::search
