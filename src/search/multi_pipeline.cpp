// SPDX-License-Identifier: Apache-2.0
#include "search/multi_pipeline.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/infinity.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/rules.h"
#include "search/budgets.h"
#include "search/phase_context.h"
#include "search/pipeline_splits.h"

namespace espalier::search {
namespace {

struct PipelineChoice {
  std::size_t group = 0;
  Pipeline pipeline;  ///< with the whole batch, on the group's devices
  PipelineEstimate estimate;
};

/// Holds a choice of columns with the micro-batches of each.
struct SampleSplit {
  std::vector<const PipelineChoice*> columns;
  std::vector<std::int64_t> microbatches;
  double estimate_ns = 0;
};

/// Holds a pipeline on one group, simulated without the others.
struct Alone {
  Pipeline pipeline;
  std::int64_t alone_ns = 0;
};

class MultiPipelineSearch {
 public:
  MultiPipelineSearch(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        work_(problem),
        reach_(problem, evaluator, options),
        context_(problem, evaluator, {incumbent_ns, options.node_limit, options.interrupted}, out_) {}

  MultiPipelineOutcome run(const SingleGroupOutcome& alone);

 private:
  void add_columns(const SingleGroupOutcome& alone);
  void add_column(std::size_t group, const Pipeline& pipeline, std::int64_t iteration_ns);
  std::vector<double> paces(const SingleGroupOutcome& alone);
  /// Adds columns from searches with about the number of samples that each group trains in the least time.
  void add_shares(const SingleGroupOutcome& alone);
  /// Adds columns of fewer samples for groups that have none, where no plan fits yet.
  void add_missing();
  /// Returns the fastest uniform plans of a group with exactly `samples` samples, by time, one for each number of
  /// samples per micro-batch. Results are cached.
  const std::vector<Alone>& exact(std::size_t group, std::int64_t samples);
  void search_exact(std::size_t group, std::int64_t nodes, std::int64_t samples, std::vector<Alone>& out);
  /// Moves samples between two pipelines of a plan and gives both the configurations that suit them.
  void improve_exact(GroupedCandidate plan);
  /// Applies the first such move that is faster; returns false if there is none.
  bool improve_exact_once(GroupedCandidate& plan);
  /// Moves samples between the pipelines of the fastest plans.
  void improve_best(std::vector<std::pair<std::int64_t, const SampleSplit*>> judged);
  [[nodiscard]] std::vector<SampleSplit> deals();
  void extend(std::vector<const PipelineChoice*>& chosen, std::size_t group, std::vector<SampleSplit>& out);
  [[nodiscard]] Plan plan_of(const SampleSplit& deal) const;
  /// Returns the simulated time; 0: it breaks a rule or does not fit.
  std::int64_t judge(const SampleSplit& deal);
  std::int64_t judge(Plan plan);
  [[nodiscard]] Plan beside_each_other(const std::vector<const Pipeline*>& pipelines) const;
  GroupedCandidate improve(SampleSplit deal, std::int64_t ns);
  void thin_columns();
  /// Judges all plans of several pipelines that may be faster than the best, where these are few. Returns false if
  /// they are not.
  bool close(const SingleGroupOutcome& alone);
  [[nodiscard]] bool legal(const PipelineChoice& column, std::int64_t microbatches) const;

  const Problem& problem_;
  Evaluator& evaluator_;
  const Options& options_;
  const WorkBound work_;
  GroupReach reach_;
  MultiPipelineOutcome out_;
  PhaseContext context_;
  std::int64_t work_ns_ = 0;                          ///< no plan takes less
  std::int64_t floor_ns_ = 0;                         ///< no plan of several pipelines takes less
  std::vector<std::vector<PipelineChoice>> columns_;  ///< by group
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<Alone>> exact_;
  std::int64_t exact_searches_ = 0, exact_choices_ = 0;
};

Pipeline with_microbatches(Pipeline pipeline, std::int64_t microbatches) {
  pipeline.schedule.microbatches = static_cast<std::int32_t>(microbatches);
  pipeline.samples = microbatches * pipeline.samples_per_microbatch();
  return pipeline;
}

bool MultiPipelineSearch::legal(const PipelineChoice& column, std::int64_t microbatches) const {
  const Cluster alone = group_alone(*problem_.cluster, column.group);
  Training training = problem_.training;
  const Pipeline dealt = with_microbatches(column.pipeline, microbatches);
  training.global_batch = dealt.samples;
  RuleFacts facts = rule_facts(*problem_.model, alone, training, 1);
  const Strategy s = dealt.strategy();
  facts.devices = s.devices() * dealt.schedule.stages;  // it may leave nodes out
  return is_legal(facts, dealt.strategy(), dealt.schedule) &&
         engine_allows(*problem_.engine, facts, dealt.strategy(), dealt.schedule);
}

void MultiPipelineSearch::add_column(std::size_t group, const Pipeline& pipeline, std::int64_t iteration_ns) {
  PipelineChoice column{group, pipeline, {}};
  const std::int64_t all = pipeline.schedule.microbatches, other = all > 1 ? all / 2 : 2;
  column.estimate.samples = pipeline.samples_per_microbatch();
  if (!legal(column, other)) return;
  Plan plan = context_.empty_plan();
  plan.pipelines = {with_microbatches(pipeline, other)};
  column.estimate.tau =
      static_cast<double>(iteration_ns - context_.simulate(plan).iteration_ns) / static_cast<double>(all - other);
  column.estimate.alpha = static_cast<double>(iteration_ns) - column.estimate.tau * static_cast<double>(all);
  if (column.estimate.tau <= 0) return;
  ++out_.columns;
  columns_[group].push_back(std::move(column));
}

void MultiPipelineSearch::search_exact(std::size_t group, std::int64_t nodes, std::int64_t samples, std::vector<Alone>& out) {
  const Cluster alone = nodes_alone(*problem_.cluster, group, nodes);
  Problem own = problem_;
  own.cluster = &alone;
  own.space = space_alone(problem_.space);
  own.training.global_batch = samples;
  Options how;
  how.threads = options_.threads;
  how.interrupted = options_.interrupted;
  how.slowest_ns = context_.best_ns();
  if (options_.node_limit > 0) how.node_limit = std::max<std::int64_t>(1, options_.node_limit - out_.simulations);
  const Outcome found = branch_and_bound(own, evaluator_, how);
  ++exact_searches_;
  exact_choices_ += found.bounded;
  out_.simulations += found.simulations;
  std::vector<std::int64_t> seen;
  for (const Candidate& candidate : found.simulated) {
    if (seen.size() == kMostColumns) break;
    const std::int64_t each = std::int64_t{candidate.configuration.schedule.micro_batch} * candidate.configuration.strategy.dp;
    if (std::find(seen.begin(), seen.end(), each) != seen.end()) continue;
    seen.push_back(each);
    out.push_back({in_cluster(own, problem_.cluster->first_device(group), candidate.configuration), candidate.iteration_ns});
  }
}

const std::vector<Alone>& MultiPipelineSearch::exact(std::size_t group, std::int64_t samples) {
  const auto [known, added] = exact_.try_emplace({group, samples});
  if (!added) return known->second;
  std::vector<double> devices(problem_.cluster->groups.size(), 0.0);
  const NodeGroup& of = problem_.cluster->groups[group];
  for (std::int64_t nodes = of.nodes; nodes >= 1; --nodes) {
    devices[group] = work_.capacity(group, nodes);
    if (problem_.space.devices == DeviceChoice::all && nodes < of.nodes) break;
    if (work_.ns(devices, samples) >= context_.best_ns() || context_.stopped()) break;
    if (exact_searches_ >= kMostExactSearches || exact_choices_ >= kMostExactChoices) break;
    search_exact(group, nodes, samples, known->second);
  }
  std::stable_sort(known->second.begin(), known->second.end(),
                   [](const Alone& a, const Alone& b) { return a.alone_ns < b.alone_ns; });
  return known->second;
}

/// Returns numbers of samples near the share. These are multiples of powers of two and of divisors of the number of
/// devices. The nearest multiples of the number of devices are included at any distance. Others lie up to a third from
/// the share, since a group whose samples divide badly trains less.
std::vector<std::int64_t> shares_near(std::int64_t share, std::int64_t devices, std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (std::int64_t step = 1; step <= std::max<std::int64_t>(16, devices); ++step)
    if ((step <= 16 && std::has_single_bit(static_cast<std::uint64_t>(step))) || devices % step == 0)
      for (const std::int64_t near : {share / step * step, (share / step + 1) * step})
        if (near >= 1 && near < batch && (step == devices || std::abs(near - share) * 8 <= std::max<std::int64_t>(share, 8)) &&
            std::find(out.begin(), out.end(), near) == out.end())
          out.push_back(near);
  for (const double factor : {0.7, 0.8, 0.9, 1.1, 1.2, 1.35}) {
    const std::int64_t far = std::llround(static_cast<double>(share) * factor / static_cast<double>(devices)) * devices;
    if (far >= 1 && far < batch && std::find(out.begin(), out.end(), far) == out.end()) out.push_back(far);
  }
  return out;
}

/// Returns the samples of each group in the least time in which all of them together train the batch. If that is
/// unknown, it uses the time of the whole batch alone, or that of its arithmetic where some group has no such plan.
std::vector<double> MultiPipelineSearch::paces(const SingleGroupOutcome& alone) {
  std::vector<double> out;
  if (!reach_.known()) {
    const bool all = std::none_of(alone.groups.begin(), alone.groups.end(), [](const auto& g) { return g.simulated.empty(); });
    for (std::size_t g = 0; g < alone.groups.size(); ++g) {
      std::vector<double> devices(alone.groups.size(), 0.0);
      devices[g] = work_.capacity(g);
      const std::int64_t ns =
          all ? alone.groups[g].simulated.front().iteration_ns : work_.ns(devices, problem_.training.global_batch);
      if (ns <= 0) return {};
      out.push_back(1.0 / static_cast<double>(ns));
    }
    return out;
  }
  const std::int64_t least = least_time(floor_ns_, context_.best_ns() == INT64_MAX ? 16 * floor_ns_ : context_.best_ns(),
                                        problem_.training.global_batch, [&](std::int64_t ns) { return reach_.samples(ns); });
  for (std::size_t g = 0; g < problem_.cluster->groups.size(); ++g) out.push_back(static_cast<double>(reach_.samples(g, least)));
  return out;
}

/// Adds shares in proportion to the paces of the groups, and numbers of samples near them that divide well.
void MultiPipelineSearch::add_shares(const SingleGroupOutcome& alone) {
  const std::int64_t batch = problem_.training.global_batch;
  if (problem_.cluster->groups.size() < 2 || floor_ns_ >= context_.best_ns()) return;
  const std::vector<double> reached = paces(alone);
  const double all = std::accumulate(reached.begin(), reached.end(), 0.0);
  if (all <= 0) return;
  std::vector<std::vector<std::int64_t>> tried;
  for (std::size_t g = 0; g < reached.size(); ++g) {
    const NodeGroup& group = problem_.cluster->groups[g];
    tried.push_back(
        shares_near(std::llround(reached[g] / all * static_cast<double>(batch)), group.nodes * group.devices_per_node, batch));
  }
  if (tried.size() == 2)  // one of two groups gets the samples that the other leaves
    for (const std::size_t g : {0, 1})
      for (const std::int64_t samples : std::vector<std::int64_t>(tried[g]))
        if (std::find(tried[1 - g].begin(), tried[1 - g].end(), batch - samples) == tried[1 - g].end())
          tried[1 - g].push_back(batch - samples);
  for (std::size_t g = 0; g < tried.size(); ++g)
    for (const std::int64_t samples : tried[g])
      for (const Alone& one : exact(g, samples)) add_column(g, one.pipeline, one.alone_ns);
}

/// Returns numbers of samples below `batch` with a common divisor with `devices`, the nearest to `share` first.
std::vector<std::int64_t> samples_near(std::int64_t share, std::int64_t devices, std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (std::int64_t step = 1; step <= devices; ++step) {
    if (devices % step != 0) continue;
    for (const std::int64_t samples : {share / step * step, (share / step + 1) * step, step})
      if (samples >= 1 && samples < batch && std::find(out.begin(), out.end(), samples) == out.end()) out.push_back(samples);
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](std::int64_t a, std::int64_t b) { return std::abs(a - share) < std::abs(b - share); });
  if (out.size() > kMostMissing) out.resize(kMostMissing);
  return out;
}

void MultiPipelineSearch::add_missing() {
  if (context_.best_ns() != INT64_MAX) return;
  const std::int64_t batch = problem_.training.global_batch;
  for (std::size_t g = 0; g < columns_.size(); ++g) {
    const NodeGroup& group = problem_.cluster->groups[g];
    const std::int64_t devices = group.nodes * group.devices_per_node;
    for (const std::int64_t samples : samples_near(batch * devices / problem_.cluster->devices(), devices, batch)) {
      if (!columns_[g].empty() || context_.stopped()) break;
      std::vector<Alone> found;
      search_exact(g, group.nodes, samples, found);
      for (const Alone& one : found) add_column(g, one.pipeline, one.alone_ns);
    }
  }
}

/// Returns numbers of samples that pipelines may hand over. Multiples of their data-parallel degrees keep these. The
/// last is 0, which looks for other configurations with the same samples.
std::vector<std::int64_t> moves_of(const std::vector<Pipeline>& pipelines, std::int64_t batch) {
  std::vector<std::int64_t> out = {1, 2, 3, 4, 6, 8};
  for (const std::int64_t moved : {12, 16})
    if (moved * 16 <= batch) out.push_back(moved);
  for (const Pipeline& pipeline : pipelines)
    for (const std::int64_t times : {1, 2, 3, 4}) out.push_back(times * pipeline.strategy().dp);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  out.push_back(0);
  return out;
}

bool MultiPipelineSearch::improve_exact_once(GroupedCandidate& plan) {
  const std::vector<Pipeline>& pipelines = plan.pipelines;
  const auto group_of = [&](const Pipeline& p) { return problem_.cluster->group_of(p.stages.front().devices.front().first); };
  for (const std::int64_t moved : moves_of(pipelines, problem_.training.global_batch))
    for (std::size_t from = 0; from < pipelines.size(); ++from)
      for (std::size_t to = 0; to < pipelines.size(); ++to) {
        if (from == to || pipelines[from].samples <= moved || context_.stopped()) continue;
        GroupedCandidate best = plan;
        for (const Alone& a : exact(group_of(pipelines[from]), pipelines[from].samples - moved)) {
          if (a.alone_ns >= best.iteration_ns) break;
          for (const Alone& b : exact(group_of(pipelines[to]), pipelines[to].samples + moved)) {
            if (b.alone_ns >= best.iteration_ns) break;
            std::vector<const Pipeline*> chosen;
            for (const Pipeline& p : pipelines) chosen.push_back(&p);
            chosen[from] = &a.pipeline;
            chosen[to] = &b.pipeline;
            Plan tried = beside_each_other(chosen);
            const std::int64_t ns = judge(tried);
            if (ns > 0 && ns < best.iteration_ns) best = {std::move(tried.pipelines), ns};
          }
        }
        if (best.iteration_ns == plan.iteration_ns) continue;
        plan = std::move(best);
        return true;
      }
  return false;
}

void MultiPipelineSearch::improve_exact(GroupedCandidate plan) {
  while (!context_.stopped() && improve_exact_once(plan)) {
  }
}

void MultiPipelineSearch::improve_best(std::vector<std::pair<std::int64_t, const SampleSplit*>> judged) {
  std::stable_sort(judged.begin(), judged.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::set<std::vector<std::int64_t>> seen;  // samples of each group
  for (const auto& [ns, split] : judged) {
    if (seen.size() >= kImprovedSplits || context_.stopped()) break;
    std::vector<std::int64_t> samples(columns_.size(), 0);
    for (std::size_t k = 0; k < split->columns.size(); ++k)
      samples[split->columns[k]->group] = split->microbatches[k] * split->columns[k]->estimate.samples;
    if (seen.insert(samples).second) improve_exact(improve(*split, ns));
  }
}

void MultiPipelineSearch::add_columns(const SingleGroupOutcome& alone) {
  columns_.resize(alone.groups.size());
  for (std::size_t g = 0; g < alone.groups.size(); ++g) {
    std::vector<std::int64_t> seen;
    for (const Candidate& candidate : alone.groups[g].simulated) {
      if (seen.size() >= kMostColumns || context_.stopped()) break;
      const std::int64_t samples =
          std::int64_t{candidate.configuration.schedule.micro_batch} * candidate.configuration.strategy.dp;
      if (std::find(seen.begin(), seen.end(), samples) != seen.end()) continue;
      seen.push_back(samples);
      add_column(g, in_cluster(problem_, problem_.cluster->first_device(g), candidate.configuration), candidate.iteration_ns);
    }
  }
}

void MultiPipelineSearch::extend(std::vector<const PipelineChoice*>& chosen, std::size_t group, std::vector<SampleSplit>& out) {
  if (out.size() >= kMostCombinations) return;
  if (group < columns_.size()) {
    if (problem_.space.devices != DeviceChoice::all) extend(chosen, group + 1, out);
    for (const PipelineChoice& column : columns_[group]) {
      chosen.push_back(&column);
      extend(chosen, group + 1, out);
      chosen.pop_back();
    }
    return;
  }
  if (chosen.size() < 2) return;
  std::vector<PipelineEstimate> estimates;
  for (const PipelineChoice* column : chosen) estimates.push_back(column->estimate);
  SampleSplit deal{chosen, deal_samples(estimates, problem_.training.global_batch), 0};
  if (deal.microbatches.empty()) return;
  for (std::size_t k = 0; k < chosen.size(); ++k)
    deal.estimate_ns =
        std::max(deal.estimate_ns, estimates[k].alpha + estimates[k].tau * static_cast<double>(deal.microbatches[k]));
  out.push_back(std::move(deal));
}

std::vector<SampleSplit> MultiPipelineSearch::deals() {
  std::vector<SampleSplit> all;
  std::vector<const PipelineChoice*> chosen;
  extend(chosen, 0, all);
  out_.bounded = static_cast<std::int64_t>(all.size());
  std::stable_sort(all.begin(), all.end(),
                   [](const SampleSplit& a, const SampleSplit& b) { return a.estimate_ns < b.estimate_ns; });
  return all;
}

Plan MultiPipelineSearch::plan_of(const SampleSplit& deal) const {
  std::vector<Pipeline> dealt;
  std::vector<const Pipeline*> pipelines;
  for (std::size_t k = 0; k < deal.columns.size(); ++k)
    dealt.push_back(with_microbatches(deal.columns[k]->pipeline, deal.microbatches[k]));
  for (const Pipeline& pipeline : dealt) pipelines.push_back(&pipeline);
  return beside_each_other(pipelines);
}

std::int64_t MultiPipelineSearch::judge(const SampleSplit& deal) {
  for (std::size_t k = 0; k < deal.columns.size(); ++k)
    if (!legal(*deal.columns[k], deal.microbatches[k])) return 0;
  return judge(plan_of(deal));
}

Plan MultiPipelineSearch::beside_each_other(const std::vector<const Pipeline*>& pipelines) const {
  Plan plan = context_.empty_plan();
  for (const Pipeline* pipeline : pipelines) {
    plan.pipelines.push_back(*pipeline);
    plan.pipelines.back().id = static_cast<std::int32_t>(plan.pipelines.size()) - 1;
  }
  return plan;
}

std::int64_t MultiPipelineSearch::judge(Plan plan) {
  if (!plan_violations(*problem_.model, plan).empty()) return 0;
  const PlanEvaluation judged = context_.simulate(plan);
  ESPALIER_CHECK(judged.iteration_ns >= (plan.pipelines.size() > 1 ? floor_ns_ : work_ns_) || !evaluator_.exact());
  return context_.offer(plan.pipelines, judged) ? judged.iteration_ns : 0;
}

GroupedCandidate MultiPipelineSearch::improve(SampleSplit deal, std::int64_t ns) {
  const std::int64_t before = out_.simulations;
  for (bool better = true; better && !context_.stopped() && out_.simulations - before < kMostSplits;) {
    better = false;
    for (std::size_t from = 0; from < deal.columns.size() && !better; ++from)
      for (std::size_t to = 0; to < deal.columns.size() && !better; ++to) {
        if (from == to) continue;
        const std::int64_t give = deal.columns[from]->estimate.samples, take = deal.columns[to]->estimate.samples;
        const std::int64_t samples = std::lcm(give, take);
        SampleSplit moved = deal;
        moved.microbatches[from] -= samples / give;
        moved.microbatches[to] += samples / take;
        if (moved.microbatches[from] < 1) continue;
        const std::int64_t found = judge(moved);
        if (found == 0 || found >= ns) continue;
        ns = found;
        deal = std::move(moved);
        better = true;
      }
  }
  return {plan_of(deal).pipelines, ns};
}

/// Holds the pipelines of each group with each number of samples, alone, by time, and selects which of them to
/// combine.
class Splits {
 public:
  /// Returns false: too many, or stopped.
  bool fill(const Problem& problem, Evaluator& evaluator, const SingleGroupOutcome& alone, std::int64_t below_ns,
            const std::function<bool()>& stopped) {
    double all = 0;
    for (std::size_t g = 0; g < alone.groups.size(); ++g)
      all += alone.groups[g].space_size * static_cast<double>(problem.training.global_batch * problem.cluster->groups[g].nodes);
    if (all > kMostEnumerated || problem.cluster->has_speeds() || !evaluator.exact()) return false;
    for (std::size_t g = 0; g < alone.groups.size(); ++g) {
      of_.emplace_back(static_cast<std::size_t>(problem.training.global_batch));
      const std::int64_t nodes = problem.cluster->groups[g].nodes;
      for (std::int64_t n = problem.space.devices == DeviceChoice::all ? nodes : 1; n <= nodes; ++n)
        if (!fill_nodes(problem, evaluator, g, n, below_ns, stopped)) return false;
    }
    find_shares(problem.training.global_batch, problem.space.devices != DeviceChoice::all);
    return true;
  }
  bool fill_nodes(const Problem& problem, Evaluator& evaluator, std::size_t g, std::int64_t nodes, std::int64_t below_ns,
                  const std::function<bool()>& stopped) {
    const Cluster cluster = nodes_alone(*problem.cluster, g, nodes);
    Problem own = problem;
    own.cluster = &cluster;
    own.space = space_alone(problem.space);
    for (std::int64_t samples = 1; samples < problem.training.global_batch; ++samples) {
      own.training.global_batch = samples;
      // With fewer samples, a group has other configurations than those counted for the whole batch.
      if (looked_ > kMostEnumerated || stopped()) return false;
      const Outcome all = exhaustive(own, evaluator, {});
      looked_ += static_cast<double>(all.space_size);
      for (const Candidate& found : all.simulated) {
        if (found.iteration_ns >= below_ns) break;
        of_.back()[static_cast<std::size_t>(samples)].push_back(
            {in_cluster(own, problem.cluster->first_device(g), found.configuration), found.iteration_ns});
      }
    }
    return true;
  }
  [[nodiscard]] std::size_t groups() const { return of_.size(); }
  [[nodiscard]] const std::vector<Alone>& of(std::size_t g, std::int64_t samples) const {
    return of_[g][static_cast<std::size_t>(samples)];
  }
  /// Returns whether group `g` and those after it hold plans that take exactly `samples` together.
  [[nodiscard]] bool can_take(std::size_t g, std::int64_t samples) const { return takes_[g][static_cast<std::size_t>(samples)]; }

 private:
  void find_shares(std::int64_t batch, bool may_idle) {
    takes_.assign(groups() + 1, std::vector<bool>(static_cast<std::size_t>(batch) + 1, false));
    takes_.back()[0] = true;
    for (std::size_t g = groups(); g-- > 0;)
      for (std::int64_t samples = 0; samples <= batch; ++samples) {
        bool takes = may_idle && can_take(g + 1, samples);
        for (std::int64_t own = 1; !takes && own <= std::min(samples, batch - 1); ++own)
          takes = !of(g, own).empty() && can_take(g + 1, samples - own);
        takes_[g][static_cast<std::size_t>(samples)] = takes;
      }
  }

  double looked_ = 0;                                ///< configurations
  std::vector<std::vector<std::vector<Alone>>> of_;  ///< [group][samples]
  std::vector<std::vector<bool>> takes_;             ///< [group][samples]; the extra group at the end takes none
};

/// Simulates plans whose pipelines end soonest alone first, which shows that the others are slower.
bool MultiPipelineSearch::close(const SingleGroupOutcome& alone) {
  Splits splits;
  if (!splits.fill(problem_, evaluator_, alone, context_.best_ns(), [this] { return context_.stopped(); })) return false;
  struct Choice {
    std::int64_t alone_ns = 0;  ///< time of the slowest pipeline
    std::vector<const Pipeline*> pipelines;
  };
  std::vector<Choice> choices;
  Choice chosen;
  // Every step of the recursion leads to a choice, as shares that later groups cannot take are never begun.
  const std::function<bool(std::size_t, std::int64_t)> extend = [&](std::size_t g, std::int64_t samples) {
    if (!splits.can_take(g, samples)) return true;
    if (g == splits.groups()) {
      if (chosen.pipelines.size() > 1) choices.push_back(chosen);
      return choices.size() < kMostPipelineSets;
    }
    if (problem_.space.devices != DeviceChoice::all && !extend(g + 1, samples)) return false;
    for (std::int64_t own = 1; own <= std::min(samples, problem_.training.global_batch - 1); ++own)
      for (const Alone& one : splits.of(g, own)) {
        const std::int64_t before = chosen.alone_ns;
        chosen.alone_ns = std::max(before, one.alone_ns);
        chosen.pipelines.push_back(&one.pipeline);
        const bool all = extend(g + 1, samples - own);
        chosen.pipelines.pop_back();
        chosen.alone_ns = before;
        if (!all) return false;
      }
    return true;
  };
  if (!extend(0, problem_.training.global_batch)) return false;
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.alone_ns < b.alone_ns; });
  std::int64_t left = kMostClosing;
  for (const Choice& choice : choices) {
    if (choice.alone_ns >= context_.best_ns()) break;
    if (--left < 0 || context_.stopped()) return false;
    judge(beside_each_other(choice.pipelines));
  }
  return true;
}

/// Keeps as many of the fastest columns of each group as leave few choices.
void MultiPipelineSearch::thin_columns() {
  constexpr std::array<std::size_t, 4> kKept = {24, 12, 6, 4};  // for 2, 3, 4, 5 groups
  const std::size_t most = kKept[std::clamp<std::size_t>(columns_.size(), 2, 5) - 2];
  for (std::vector<PipelineChoice>& of : columns_) {
    // Columns are sorted by the time of a sample in a step of the group's usual share.
    const auto pace = [&](const PipelineChoice& c) { return c.estimate.tau / static_cast<double>(c.estimate.samples); };
    std::stable_sort(of.begin(), of.end(), [&](const PipelineChoice& a, const PipelineChoice& b) { return pace(a) < pace(b); });
    if (of.size() > most) of.resize(most);
  }
}

MultiPipelineOutcome MultiPipelineSearch::run(const SingleGroupOutcome& alone) {
  work_ns_ = work_.ns();
  floor_ns_ = pipelines_floor_ns(problem_);
  if (floor_ns_ >= context_.best_ns()) {  // the reduction of gradients alone takes too long
    out_.lower_bound_ns = context_.best_ns();
    return std::move(out_);
  }
  add_columns(alone);
  if (!context_.stopped()) add_shares(alone);
  if (!context_.stopped()) add_missing();
  thin_columns();
  std::int64_t best_ns = INT64_MAX;
  std::size_t judged = 0;
  const std::vector<SampleSplit> all = deals();
  std::vector<std::pair<std::int64_t, const SampleSplit*>> fitting;
  for (const SampleSplit& deal : all) {
    if (judged++ >= kMostJudged || context_.stopped()) break;
    if (!fitting.empty() && deal.estimate_ns > 1.2 * static_cast<double>(best_ns)) break;
    const std::int64_t ns = judge(deal);
    if (ns == 0) continue;
    fitting.emplace_back(ns, &deal);
    best_ns = std::min(best_ns, ns);
  }
  improve_best(std::move(fitting));
  out_.lower_bound_ns = std::min(floor_ns_, context_.best_ns());
  if (!context_.stopped() && close(alone))
    out_.lower_bound_ns = context_.best_ns();
  else if (!context_.stopped() && context_.best_ns() < INT64_MAX)
    out_.lower_bound_ns = splits_bound_ns(problem_, reach_, context_.best_ns());
  out_.complete = !out_.interrupted;
  return std::move(out_);
}

}  // namespace

std::vector<std::int64_t> deal_samples(const std::vector<PipelineEstimate>& pipelines, std::int64_t batch) {
  std::int64_t step = batch;
  for (const PipelineEstimate& p : pipelines) step = std::gcd(step, p.samples);
  const std::int64_t cells = batch / step;
  if (cells > kMostSampleCells) return {};
  using base::kInfinity;
  // Holds the time of the slowest pipeline, by samples dealt so far.
  std::vector<double> best(static_cast<std::size_t>(cells) + 1, kInfinity);
  best[0] = 0;
  std::vector<std::vector<std::int32_t>> taken;  // micro-batches of each pipeline at each number of samples
  for (const PipelineEstimate& p : pipelines) {
    std::vector<double> next(best.size(), kInfinity);
    std::vector<std::int32_t> own(best.size(), 0);
    const auto stride = static_cast<std::size_t>(p.samples / step);
    for (std::size_t have = 0; have < best.size(); ++have) {
      if (best[have] == kInfinity) continue;
      std::int32_t m = 1;
      for (std::size_t then = have + stride; then < best.size(); then += stride, ++m) {
        const double slowest = std::max(best[have], p.alpha + p.tau * m);
        if (slowest >= next[then]) continue;
        next[then] = slowest;
        own[then] = m;
      }
    }
    best = std::move(next);
    taken.push_back(std::move(own));
  }
  if (best.back() == kInfinity) return {};
  std::vector<std::int64_t> out(pipelines.size());
  auto at = static_cast<std::size_t>(cells);
  for (std::size_t k = pipelines.size(); k-- > 0;) {
    out[k] = taken[k][at];
    at -= static_cast<std::size_t>(out[k] * (pipelines[k].samples / step));
  }
  return out;
}

MultiPipelineOutcome multi_pipeline(const Problem& problem, Evaluator& evaluator, const SingleGroupOutcome& alone,
                                    std::int64_t incumbent_ns, const Options& options) {
  if (problem.cluster->groups.size() > kMostPipelineGroups) {
    MultiPipelineOutcome none;
    none.lower_bound_ns = work_bound_ns(problem);
    return none;
  }
  return MultiPipelineSearch(problem, evaluator, incumbent_ns, options).run(alone);
}

}  // namespace espalier::search
