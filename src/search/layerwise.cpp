// SPDX-License-Identifier: Apache-2.0
#include "search/layerwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/parallel.h"
#include "cost/bound.h"
#include "plan/split.h"
#include "search/layer_options.h"
#include "search/layered_candidate.h"

namespace espalier::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array<double, 3> kLambdas = {1.0, 0.5, 0.0};
// Fixed sizes: they shape the order of work, so they must not depend on the number of threads.
constexpr std::size_t kBatch = 4;    // groups solved side by side
constexpr int kMemoryRounds = 6;     // times a stage that came out too large is solved again with less room
constexpr std::size_t kKept = 64;    // simulated candidates remembered
constexpr std::int32_t kChunks = 8;  // virtual stages tried, at most

/// The choices of the layer group with one (pp, samples).
struct Group {
  std::int32_t stages = 1;
  std::int64_t samples = 1;
  std::int32_t microbatches = 1;
  std::vector<Configuration> bases;
  double bound_ns = 0;
};

/// What solving a group brought.
struct GroupResult {
  std::vector<LayeredCandidate> candidates;  ///< that fit and beat the incumbent of then
  double bound_ns = kNever;
  double priced = 0, kept = 0;
  std::int64_t simulations = 0;
};

/// Strategies of all layers, with the partition they belong to.
struct Assignment {
  std::vector<std::int32_t> first, options;
};

/// The program of one group: stages as functions of their layers, remembered.
class GroupProgram {
 public:
  GroupProgram(const Problem& problem, const CostBook& book, const OptionTable& table, const Group& group)
      : model_(*problem.model), table_(table), group_(group), margins_(static_cast<std::size_t>(group.stages), 0) {
    const cost::CostContext& c = book.context();
    capacity_ = static_cast<std::int64_t>((static_cast<double>(book.memory_limit()) + 1) / (1.0 + c.engine->allocator_reserve)) -
                c.workspace_bytes;
  }

  /// Micro-batches in flight on a stage of one-forward-one-backward.
  [[nodiscard]] std::int32_t in_flight(std::int32_t stage) const {
    return std::max(1, std::min(group_.microbatches, group_.stages - stage));
  }
  /// Room that stage `i` needs beside its layers, found by measuring; forgets nothing that was solved with other margins.
  void widen(std::int32_t stage, std::int64_t bytes) { margins_[static_cast<std::size_t>(stage)] += bytes; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }

  struct Solved {
    bool fits = false;
    LayerSolution solution;
  };
  /// Layers [first, end) on a stage, by the objective of λ. `below`: solutions that are not below it need not be found.
  const Solved& stage(std::int32_t stage, std::int32_t first, std::int32_t end, double lambda, double below) {
    std::vector<std::int64_t> key = {in_flight(stage), margins_[static_cast<std::size_t>(stage)],
                                     static_cast<std::int64_t>(lambda * 2)};
    std::vector<std::int32_t> kinds(model_.layers.begin() + first, model_.layers.begin() + end);
    for (std::size_t l = 0; l < kinds.size(); ++l) {
      if (l == 0 || kinds[l] != kinds[l - 1]) key.push_back(kinds[l]), key.push_back(0);
      ++key.back();
    }
    const auto [at, fresh] = solved_.try_emplace(std::move(key));
    if (fresh) {
      const LayerProblem p = table_.program(kinds, in_flight(stage), lambda);
      auto found = best_layers(p, objective(lambda), capacity_ - margins_[static_cast<std::size_t>(stage)], below);
      at->second.fits = found.has_value();
      if (found) at->second.solution = std::move(*found);
    }
    return at->second;
  }
  [[nodiscard]] LayerObjective objective(double lambda) const { return {group_.microbatches - 1 + lambda, 1.0}; }

  /// The partition problem of λ. λ = 1: work and the way to each stage; else the largest objective of a stage.
  [[nodiscard]] BalanceProblem balance() const {
    BalanceProblem b;
    b.layers = static_cast<std::int32_t>(model_.layers.size());
    b.stages = group_.stages, b.microbatches = group_.microbatches;
    return b;
  }
  StageOracle oracle(double lambda, double below) {
    return [this, lambda, below](std::int32_t i, std::int32_t first, std::int32_t end) -> std::optional<StageValue> {
      const Solved& s = stage(i, first, end, lambda, below);
      if (!s.fits) return std::nullopt;
      const double all = objective(lambda).steady_weight * s.solution.steady + s.solution.sync;
      if (lambda < 1) return StageValue{0.0, all, s.solution.peak};
      return StageValue{s.solution.steady, i == 0 ? s.solution.sync : 0.0, s.solution.peak};
    };
  }
  /// The strategies of every layer under a partition.
  Assignment assignment(const std::vector<std::int32_t>& first, double lambda, double below) {
    Assignment a;
    a.first = first;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const auto layers = static_cast<std::int32_t>(model_.layers.size());
      const std::int32_t end = i + 1 < first.size() ? first[i + 1] : layers;
      const Solved& s = stage(static_cast<std::int32_t>(i), first[i], end, lambda, below);
      if (!s.fits) return {};
      append(a, s.solution, first[i]);
    }
    return a;
  }
  /// Adds a solution of layers from `begin` on.
  void append(Assignment& a, const LayerSolution& s, std::int32_t begin) const {
    for (std::size_t l = 0; l < s.options.size(); ++l) {
      const std::int32_t kind = model_.layers[static_cast<std::size_t>(begin) + l];
      a.options.push_back(table_.of_kind(kind)[static_cast<std::size_t>(s.options[l])].strategy);
    }
  }

 private:
  const Model& model_;
  const OptionTable& table_;
  const Group& group_;
  std::int64_t capacity_ = 0;
  std::vector<std::int64_t> margins_;
  std::map<std::vector<std::int64_t>, Solved> solved_;
};

class LayerwiseSearch {
 public:
  LayerwiseSearch(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const LayerwiseOptions& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        space_(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space),
        book_(problem),
        incumbent_(incumbent_ns > 0 ? static_cast<double>(incumbent_ns) : kNever) {}

  LayerwiseOutcome run() {
    std::vector<Group> groups = groups_by_bound();
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
    if (options_.node_limit > 0 && out_.solved >= options_.node_limit) out_.complete = false;
    return !out_.complete;
  }

  std::vector<Group> groups_by_bound() {
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
    GroupResult r;
    const OptionTable table(problem_, space_, book_, group.bases);
    r.priced = table.before_reduction(), r.kept = table.after_reduction();
    GroupProgram program(problem_, book_, table, group);
    r.bound_ns = 0;
    double best = incumbent_;
    if (problem_.space.admits("schedule", static_cast<std::int64_t>(ScheduleKind::one_f_one_b))) {
      for (const double lambda : kLambdas) {
        r.bound_ns = std::max(r.bound_ns, solve_plain(group, table, program, lambda, best, worker, r));
        if (r.bound_ns >= best) break;
      }
    }
    const double other = interleaved_bound(group, program, table);
    if (group.stages > 1 && other < best && admits_interleaved()) {
      solve_interleaved(group, table, program, best, worker, r);
      r.bound_ns = std::min(r.bound_ns, other);
    }
    return r;
  }

  [[nodiscard]] bool admits_interleaved() const {
    return problem_.space.admits("schedule", static_cast<std::int64_t>(ScheduleKind::interleaved));
  }

  /// One-forward-one-backward under one λ: a lower bound of the group; what fits and is faster than `best` goes to `r`.
  double solve_plain(const Group& group, const OptionTable& table, GroupProgram& program, double lambda, double& best, int worker,
                     GroupResult& r) {
    double bound = kNever;
    for (int round = 0; round < kMemoryRounds; ++round) {
      std::vector<std::int32_t> first = {0};
      double value = kNever;
      if (group.stages > 1) {
        const auto found = best_partition(program.balance(), program.oracle(lambda, incumbent_), best);
        if (found) first = found->first, value = found->time;
      } else {
        const auto& s = program.stage(0, 0, static_cast<std::int32_t>(problem_.model->layers.size()), lambda, incumbent_);
        if (s.fits) value = program.objective(lambda).steady_weight * s.solution.steady + s.solution.sync;
      }
      if (round == 0) bound = std::min(value, best);  // nothing below `best` was found: none is
      if (value >= best) return bound;
      const Assignment a = program.assignment(first, lambda, incumbent_);
      Schedule schedule;
      schedule.stages = group.stages, schedule.microbatches = group.microbatches;
      const std::vector<std::int64_t> excess = judge(group, table, schedule, a, best, worker, r);
      bool fits = true;
      for (std::size_t i = 0; i < excess.size(); ++i) {
        if (excess[i] > 0) fits = false, program.widen(static_cast<std::int32_t>(i), excess[i]);
      }
      if (fits) return bound;
    }
    return bound;
  }

  /// No stage does less than its part of the least work of all layers that fits all stages together.
  [[nodiscard]] double interleaved_bound(const Group& group, const GroupProgram& program, const OptionTable& table) const {
    const LayerProblem p = table.program(problem_.model->layers, 1, 1.0);
    return layers_lower_bound(p, {static_cast<double>(group.microbatches), 1.0}, program.capacity() * group.stages) /
           group.stages;
  }

  /// Interleaved schedules: the engine's split, strategies by stage.
  void solve_interleaved(const Group& group, const OptionTable& table, const GroupProgram& program, double& best, int worker,
                         GroupResult& r) {
    const auto layers = static_cast<std::int32_t>(problem_.model->layers.size());
    for (std::int32_t v = 2; v <= kChunks && v * group.stages <= layers; ++v) {
      if (!problem_.space.admits("vpp", v) || group.microbatches % group.stages != 0) continue;
      Schedule schedule{ScheduleKind::interleaved, group.stages, v, group.microbatches, 1};
      std::int64_t margin = 0;
      for (int round = 0; round < kMemoryRounds; ++round) {
        const Assignment a = interleaved_assignment(schedule, table, program, margin);
        if (a.options.empty()) break;
        const std::vector<std::int64_t> excess = judge(group, table, schedule, a, best, worker, r);
        const std::int64_t most = *std::max_element(excess.begin(), excess.end());
        if (most <= 0) break;
        margin += most;
      }
    }
  }

  Assignment interleaved_assignment(const Schedule& s, const OptionTable& table, const GroupProgram& program,
                                    std::int64_t margin) const {
    Assignment a;
    const Model& model = *problem_.model;
    a.first = split_layers(model, problem_.training.sequence, SplitPolicy::balanced, s.stages * s.virtual_stages);
    std::vector<std::int32_t> bounds = a.first;
    bounds.push_back(static_cast<std::int32_t>(model.layers.size()));
    a.options.assign(model.layers.size(), 0);
    for (std::int32_t i = 0; i < s.stages; ++i) {
      std::vector<std::int32_t> mine, kinds;
      for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
        const auto chunk = static_cast<std::size_t>(pipeline_chunk(s, i, k));
        for (std::int32_t l = bounds[chunk]; l < bounds[chunk + 1]; ++l) mine.push_back(l);
      }
      for (const std::int32_t l : mine) kinds.push_back(model.layers[static_cast<std::size_t>(l)]);
      const std::int32_t passes = (max_in_flight(s, i) + s.virtual_stages - 1) / s.virtual_stages;
      const auto found = best_layers(table.program(kinds, passes, 1.0), {static_cast<double>(s.microbatches), 1.0},
                                     program.capacity() - margin, kNever);
      if (!found) return {};
      for (std::size_t l = 0; l < mine.size(); ++l)
        a.options[static_cast<std::size_t>(mine[l])] =
            table.of_kind(kinds[l])[static_cast<std::size_t>(found->options[l])].strategy;
    }
    return a;
  }

  /// Which overlaps to try: everything that is allowed, and each of them left out.
  [[nodiscard]] std::vector<Overlap> overlaps(std::int32_t stages) const {
    const auto may = [&](const char* dimension) { return problem_.space.admits(dimension, 1); };
    const auto may_not = [&](const char* dimension) { return problem_.space.admits(dimension, 0); };
    const bool tp = problem_.space.allow.count("overlap_tp") > 0 && may("overlap_tp");
    std::vector<Overlap> all;
    for (const bool p2p : {true, false}) {
      if (p2p ? stages == 1 || !may("overlap_p2p") : stages > 1 && !may_not("overlap_p2p")) continue;
      for (const bool grad : {true, false})
        for (const bool param : {true, false})
          if ((grad ? may("overlap_grad") : may_not("overlap_grad")) && (param ? may("overlap_param") : may_not("overlap_param")))
            all.push_back({grad, param, p2p, tp});
    }
    return all;
  }

  /// Simulates an assignment under each overlap. Returns by how many bytes of tensors each stage exceeds the limit (≤ 0: fits).
  std::vector<std::int64_t> judge(const Group& group, const OptionTable& table, const Schedule& schedule, const Assignment& a,
                                  double& best, int worker, GroupResult& r) {
    std::vector<std::int64_t> excess(static_cast<std::size_t>(group.stages), 0);
    Lowering lowering;
    cost::PlanTiming timing;
    bool first = true;
    for (const Overlap& overlap : overlaps(group.stages)) {
      LayeredCandidate c;
      c.configuration = layered_configuration(*problem_.model, table, schedule, group.samples, a.first, a.options, overlap);
      assemble(book_.context(), c.configuration, group.samples, lowering, timing);
      if (first) excess = excess_bytes(lowering, timing, worker);
      first = false;
      if (*std::max_element(excess.begin(), excess.end()) > 0) return excess;
      c.peak_bytes = evaluator_.peak_bytes(lowering, timing, worker);
      if (c.peak_bytes > book_.memory_limit()) continue;
      c.iteration_ns = evaluator_.iteration_ns(lowering, timing, worker);
      ++r.simulations;
      if (static_cast<double>(c.iteration_ns) < best) best = static_cast<double>(c.iteration_ns), r.candidates.push_back(c);
    }
    return excess;
  }

  std::vector<std::int64_t> excess_bytes(const Lowering& lowering, const cost::PlanTiming& timing, int worker) {
    const std::int64_t limit = book_.memory_limit();
    const double reserve = 1.0 + timing.allocator_reserve;
    std::vector<std::int64_t> excess;
    for (std::int32_t i = 0; i < lowering.schedule.stages; ++i) {
      std::int64_t peak = 0;
      if (lowering.schedule.virtual_stages > 1) {
        peak = evaluator_.peak_bytes(lowering, timing, worker);
      } else {
        peak = cost::peak_bytes(timing.stages[static_cast<std::size_t>(i)].memory.total(),
                                cost::activations_lower_bound_bytes(timing, lowering.schedule, i), timing.allocator_reserve);
      }
      excess.push_back(peak <= limit ? 0 : static_cast<std::int64_t>(static_cast<double>(peak - limit) / reserve) + 2);
    }
    return excess;
  }

  void take(GroupResult& r) {
    if (r.priced == 0) return;
    ++out_.solved;
    out_.strategies += r.priced, out_.leaves += r.kept, out_.simulations += r.simulations;
    for (LayeredCandidate& c : r.candidates) {
      const auto ns = static_cast<double>(c.iteration_ns);
      const bool better = ns < incumbent_ || (out_.best && c.iteration_ns == out_.best->iteration_ns &&
                                              canonical_less(c.configuration, out_.best->configuration));
      out_.simulated.push_back(c);
      if (better) incumbent_ = ns, out_.best = std::move(c);
    }
  }

  void finish(double open) {
    std::stable_sort(out_.simulated.begin(), out_.simulated.end(),
                     [](const LayeredCandidate& a, const LayeredCandidate& b) { return a.iteration_ns < b.iteration_ns; });
    if (out_.simulated.size() > kKept) out_.simulated.resize(kKept);
    const double bound = std::min(open, incumbent_);
    out_.lower_bound_ns = std::isfinite(bound) ? static_cast<std::int64_t>(std::floor(bound)) : 0;
    if (out_.best && options_.balance_report) report_balance();
  }

  void report_balance() {
    const Schedule& s = out_.best->configuration.schedule;
    if (s.stages == 1 || s.virtual_stages > 1) return;
    for (Group& g : groups_by_bound()) {
      if (g.stages != s.stages || g.microbatches != s.microbatches) continue;
      const OptionTable table(problem_, space_, book_, g.bases);
      GroupProgram program(problem_, book_, table, g);
      const BalanceProblem b = program.balance();
      const StageOracle oracle = program.oracle(1.0, kNever);
      const auto row = [&](const char* name, const std::optional<Partition>& p) {
        if (p) out_.balance.rows.push_back({name, p->first, p->alpha_t, p->alpha_m, simulate(g, table, program, p->first)});
      };
      row("even", evaluate_partition(b, oracle, even_blocks_split(*problem_.model, s.stages)));
      row("time-balanced", time_balanced(b, oracle));
      row("memory-balanced", memory_balanced(b, oracle));
      row("bi-objective", bi_objective(b, oracle).best);
      row("exact", best_partition(b, oracle));
    }
  }

  /// Least simulated time of a partition with the strategies that are best for it; 0 if none fits.
  std::int64_t simulate(const Group& g, const OptionTable& table, GroupProgram program, const std::vector<std::int32_t>& first) {
    GroupResult r;
    double best = kNever;
    for (int round = 0; round < kMemoryRounds; ++round) {
      const Assignment a = program.assignment(first, 1.0, kNever);
      if (a.options.empty()) break;
      Schedule schedule;
      schedule.stages = g.stages, schedule.microbatches = g.microbatches;
      const std::vector<std::int64_t> excess = judge(g, table, schedule, a, best, 0, r);
      if (*std::max_element(excess.begin(), excess.end()) <= 0) break;
      for (std::size_t i = 0; i < excess.size(); ++i) program.widen(static_cast<std::int32_t>(i), excess[i]);
    }
    return std::isfinite(best) ? static_cast<std::int64_t>(best) : 0;
  }

  const Problem& problem_;
  Evaluator& evaluator_;
  const LayerwiseOptions& options_;
  Space space_;
  CostBook book_;
  double incumbent_;
  LayerwiseOutcome out_;
};

}  // namespace

LayerwiseOutcome layerwise(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns,
                           const LayerwiseOptions& options) {
  return LayerwiseSearch(problem, evaluator, incumbent_ns, options).run();
}

}  // namespace espalier::search
