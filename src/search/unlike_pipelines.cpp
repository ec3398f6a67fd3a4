// SPDX-License-Identifier: Apache-2.0
#include "search/unlike_pipelines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "cost/chunk_sum.h"
#include "plan/rules.h"
#include "profile/measured_operators.h"
#include "search/pipeline_splits.h"

namespace espalier::search {
namespace {

constexpr std::int64_t kMostCells = 4'096;  // of the table of samples
constexpr double kBelow = 1.0 - 1e-4;       // rounding of costs to nanoseconds
constexpr std::size_t kMostCombinations = 20'000;
constexpr double kMostAlone = 3'000;           // configurations times samples, of all groups, that are looked at one by one
constexpr std::size_t kMostChoices = 200'000;  // of these beside each other
constexpr std::int64_t kMostClosing = 3'000;   // plans simulated to close the phase

struct Column {
  std::size_t group = 0;
  Pipeline pipeline;  ///< with the whole batch, on the group's devices
  PipelineEstimate estimate;
};

/// A choice of columns with the micro-batches of each.
struct Deal {
  std::vector<const Column*> columns;
  std::vector<std::int64_t> microbatches;
  double estimate_ns = 0;
};

class Search {
 public:
  Search(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        costs_(*problem.model, *problem.cluster, problem.training, *problem.engine),
        incumbent_ns_(incumbent_ns > 0 ? incumbent_ns : INT64_MAX) {}

  UnlikePipelinesOutcome run(const EachGroupOutcome& alone);

 private:
  void add_columns(const EachGroupOutcome& alone);
  void add_column(std::size_t group, const Pipeline& pipeline, std::int64_t iteration_ns);
  [[nodiscard]] std::vector<Deal> deals();
  void extend(std::vector<const Column*>& chosen, std::size_t group, std::vector<Deal>& out);
  [[nodiscard]] Plan plan_of(const Deal& deal) const;
  /// Simulated time; 0: it breaks a rule or does not fit.
  std::int64_t judge(const Deal& deal);
  std::int64_t judge(Plan plan);
  [[nodiscard]] Plan beside_each_other(const std::vector<const Pipeline*>& pipelines) const;
  void improve(Deal deal, std::int64_t ns);
  /// All plans of several pipelines that may be faster than the best, where these are few. False: they are not.
  bool close(const EachGroupOutcome& alone);
  [[nodiscard]] bool legal(const Column& column, std::int64_t microbatches) const;
  [[nodiscard]] std::int64_t best_ns() const {
    return out_.best ? std::min(incumbent_ns_, out_.best->iteration_ns) : incumbent_ns_;
  }
  [[nodiscard]] bool stopped() {
    if (options_.interrupted && options_.interrupted()) out_.interrupted = true;
    return out_.interrupted || (options_.node_limit > 0 && out_.simulations >= options_.node_limit);
  }

  const Problem& problem_;
  Evaluator& evaluator_;
  const Options& options_;
  const cost::ClusterCosts costs_;
  const std::int64_t incumbent_ns_;
  std::int64_t work_ns_ = 0;                  ///< no plan takes less
  std::vector<std::vector<Column>> columns_;  ///< by group
  UnlikePipelinesOutcome out_;
};

Pipeline with_microbatches(Pipeline pipeline, std::int64_t microbatches) {
  pipeline.schedule.microbatches = static_cast<std::int32_t>(microbatches);
  pipeline.samples = microbatches * pipeline.samples_per_microbatch();
  return pipeline;
}

bool Search::legal(const Column& column, std::int64_t microbatches) const {
  const Cluster alone = group_alone(*problem_.cluster, column.group);
  Training training = problem_.training;
  const Pipeline dealt = with_microbatches(column.pipeline, microbatches);
  training.global_batch = dealt.samples;
  const RuleFacts facts = rule_facts(*problem_.model, alone, training, 1);
  return is_legal(facts, dealt.strategy(), dealt.schedule) &&
         engine_allows(*problem_.engine, facts, dealt.strategy(), dealt.schedule);
}

void Search::add_column(std::size_t group, const Pipeline& pipeline, std::int64_t iteration_ns) {
  Column column{group, pipeline, {}};
  const std::int64_t all = pipeline.schedule.microbatches, half = all / 2;
  column.estimate.samples = pipeline.samples_per_microbatch();
  if (half < 1 || !legal(column, half)) return;
  Plan plan;
  plan.training = problem_.training;
  plan.engine = problem_.engine->name;
  plan.pipelines = {with_microbatches(pipeline, half)};
  const auto judged = evaluator_.evaluate(problem_, costs_, plan);
  ESPALIER_CHECK(judged);
  ++out_.simulations;
  column.estimate.tau = static_cast<double>(iteration_ns - judged->iteration_ns) / static_cast<double>(all - half);
  column.estimate.alpha = static_cast<double>(iteration_ns) - column.estimate.tau * static_cast<double>(all);
  if (column.estimate.tau <= 0) return;
  ++out_.columns;
  columns_[group].push_back(std::move(column));
}

void Search::add_columns(const EachGroupOutcome& alone) {
  columns_.resize(alone.groups.size());
  for (std::size_t g = 0; g < alone.groups.size(); ++g) {
    const Cluster cluster = group_alone(*problem_.cluster, g);
    std::vector<std::int64_t> seen;
    for (const Candidate& candidate : alone.groups[g].simulated) {
      if (columns_[g].size() >= kColumns || stopped()) break;
      const std::int64_t samples =
          std::int64_t{candidate.configuration.schedule.micro_batch} * candidate.configuration.strategy.dp;
      if (std::find(seen.begin(), seen.end(), samples) != seen.end()) continue;
      seen.push_back(samples);
      const Plan plan = in_cluster(problem_, cluster, problem_.cluster->first_device(g), candidate.configuration);
      add_column(g, plan.only_pipeline(), candidate.iteration_ns);
    }
  }
}

void Search::extend(std::vector<const Column*>& chosen, std::size_t group, std::vector<Deal>& out) {
  if (out.size() >= kMostCombinations) return;
  if (group < columns_.size()) {
    if (problem_.space.devices != DeviceChoice::all) extend(chosen, group + 1, out);
    for (const Column& column : columns_[group]) {
      chosen.push_back(&column);
      extend(chosen, group + 1, out);
      chosen.pop_back();
    }
    return;
  }
  if (chosen.size() < 2) return;
  std::vector<PipelineEstimate> estimates;
  for (const Column* column : chosen) estimates.push_back(column->estimate);
  Deal deal{chosen, deal_samples(estimates, problem_.training.global_batch), 0};
  if (deal.microbatches.empty()) return;
  for (std::size_t k = 0; k < chosen.size(); ++k)
    deal.estimate_ns =
        std::max(deal.estimate_ns, estimates[k].alpha + estimates[k].tau * static_cast<double>(deal.microbatches[k]));
  out.push_back(std::move(deal));
}

std::vector<Deal> Search::deals() {
  std::vector<Deal> all;
  std::vector<const Column*> chosen;
  extend(chosen, 0, all);
  out_.combinations = static_cast<std::int64_t>(all.size());
  std::stable_sort(all.begin(), all.end(), [](const Deal& a, const Deal& b) { return a.estimate_ns < b.estimate_ns; });
  return all;
}

Plan Search::plan_of(const Deal& deal) const {
  std::vector<Pipeline> dealt;
  std::vector<const Pipeline*> pipelines;
  for (std::size_t k = 0; k < deal.columns.size(); ++k)
    dealt.push_back(with_microbatches(deal.columns[k]->pipeline, deal.microbatches[k]));
  for (const Pipeline& pipeline : dealt) pipelines.push_back(&pipeline);
  return beside_each_other(pipelines);
}

std::int64_t Search::judge(const Deal& deal) {
  for (std::size_t k = 0; k < deal.columns.size(); ++k)
    if (!legal(*deal.columns[k], deal.microbatches[k])) return 0;
  return judge(plan_of(deal));
}

Plan Search::beside_each_other(const std::vector<const Pipeline*>& pipelines) const {
  Plan plan;
  plan.training = problem_.training;
  plan.engine = problem_.engine->name;
  plan.pipelines.clear();
  for (const Pipeline* pipeline : pipelines) {
    plan.pipelines.push_back(*pipeline);
    plan.pipelines.back().id = static_cast<std::int32_t>(plan.pipelines.size()) - 1;
  }
  return plan;
}

std::int64_t Search::judge(Plan plan) {
  if (!plan_violations(*problem_.model, plan).empty()) return 0;
  ++out_.simulations;
  const auto judged = evaluator_.evaluate(problem_, costs_, plan);
  ESPALIER_CHECK(judged && (judged->iteration_ns >= work_ns_ || !evaluator_.exact()));
  if (!judged->fits) {
    ++out_.without_room;
    return 0;
  }
  if (!out_.best || judged->iteration_ns < out_.best->iteration_ns)
    out_.best = GroupedCandidate{std::move(plan.pipelines), judged->iteration_ns};
  return judged->iteration_ns;
}

void Search::improve(Deal deal, std::int64_t ns) {
  const std::int64_t before = out_.simulations;
  for (bool better = true; better && !stopped() && out_.simulations - before < kMostDeals;) {
    better = false;
    for (std::size_t from = 0; from < deal.columns.size() && !better; ++from)
      for (std::size_t to = 0; to < deal.columns.size() && !better; ++to) {
        if (from == to) continue;
        const std::int64_t give = deal.columns[from]->estimate.samples, take = deal.columns[to]->estimate.samples;
        const std::int64_t samples = std::lcm(give, take);
        Deal moved = deal;
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
}

/// Pipelines of each group with each number of samples, alone, by time; which of them to put beside each other.
class Splits {
 public:
  struct One {
    Pipeline pipeline;
    std::int64_t alone_ns = 0;
  };

  /// False: too many.
  bool fill(const Problem& problem, Evaluator& evaluator, const EachGroupOutcome& alone, std::int64_t below_ns) {
    double all = 0;
    for (const GroupAlone& group : alone.groups) all += group.space_size * static_cast<double>(problem.training.global_batch);
    if (all > kMostAlone || problem.cluster->has_speeds() || !evaluator.exact()) return false;
    for (std::size_t g = 0; g < alone.groups.size(); ++g) {
      const Cluster cluster = group_alone(*problem.cluster, g);
      Problem own = problem;
      own.cluster = &cluster;
      own.space = space_alone(problem.space);
      of_.emplace_back(static_cast<std::size_t>(problem.training.global_batch));
      for (std::int64_t samples = 1; samples < problem.training.global_batch; ++samples) {
        own.training.global_batch = samples;
        for (const Candidate& found : exhaustive(own, evaluator, {}).simulated) {
          if (found.iteration_ns >= below_ns) break;
          const Plan plan = in_cluster(own, cluster, problem.cluster->first_device(g), found.configuration);
          of_.back()[static_cast<std::size_t>(samples)].push_back({plan.only_pipeline(), found.iteration_ns});
        }
      }
    }
    return true;
  }
  [[nodiscard]] std::size_t groups() const { return of_.size(); }
  [[nodiscard]] const std::vector<One>& of(std::size_t g, std::int64_t samples) const {
    return of_[g][static_cast<std::size_t>(samples)];
  }

 private:
  std::vector<std::vector<std::vector<One>>> of_;  ///< [group][samples]
};

/// Those that end soonest alone go first, so that the others are known to be slower.
bool Search::close(const EachGroupOutcome& alone) {
  Splits splits;
  if (!splits.fill(problem_, evaluator_, alone, best_ns())) return false;
  struct Choice {
    std::int64_t alone_ns = 0;  ///< of the slowest
    std::vector<const Pipeline*> pipelines;
  };
  std::vector<Choice> choices;
  Choice chosen;
  const std::function<bool(std::size_t, std::int64_t)> extend = [&](std::size_t g, std::int64_t samples) {
    if (g == splits.groups()) {
      if (samples == 0 && chosen.pipelines.size() > 1) choices.push_back(chosen);
      return choices.size() < kMostChoices;
    }
    if (problem_.space.devices != DeviceChoice::all && !extend(g + 1, samples)) return false;
    for (std::int64_t own = 1; own <= std::min(samples, problem_.training.global_batch - 1); ++own)
      for (const Splits::One& one : splits.of(g, own)) {
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
    if (choice.alone_ns >= best_ns()) break;
    if (--left < 0 || stopped()) return false;
    judge(beside_each_other(choice.pipelines));
  }
  return true;
}

UnlikePipelinesOutcome Search::run(const EachGroupOutcome& alone) {
  work_ns_ = work_bound_ns(problem_);
  add_columns(alone);
  std::optional<Deal> best;
  std::int64_t best_ns = 0;
  std::size_t judged = 0;
  const std::vector<Deal> all = deals();
  for (const Deal& deal : all) {
    if (judged++ >= kJudged || stopped()) break;
    if (best && deal.estimate_ns > 1.2 * static_cast<double>(best_ns)) break;
    const std::int64_t ns = judge(deal);
    if (ns == 0 || (best && ns >= best_ns)) continue;
    best = deal;
    best_ns = ns;
  }
  if (best) improve(*best, best_ns);
  out_.lower_bound_ns = work_ns_;
  if (!stopped() && close(alone)) {
    out_.lower_bound_ns = this->best_ns();
  } else if (out_.best && out_.best->iteration_ns < incumbent_ns_ && !stopped()) {
    out_.lower_bound_ns = std::max(work_ns_, splits_bound_ns(problem_, evaluator_, out_.best->iteration_ns, options_));
  }
  out_.complete = !out_.interrupted;
  return std::move(out_);
}

/// The same under a profile, whose times need not grow when work is cut up: of every size of tensor parallelism that it covers the least.
std::vector<double> measured_seconds(const Problem& problem, double speed) {
  const profile::MeasuredOperators& measured = *problem.engine->measured;
  const std::int64_t sequence = problem.training.sequence.main;
  std::vector<double> out;
  for (const LayerKind& kind : problem.model->kinds) {
    double seconds = 0;
    for (const Operator& op : kind.operators) {
      double least = std::numeric_limits<double>::infinity();
      for (std::int32_t tp = 1; tp <= problem.cluster->devices(); ++tp) {
        Strategy s;
        s.tp = tp;
        const auto [shape, tokens] = profile::work_on_rank(kind, op, s, problem.model->vocabulary, sequence, 1);
        if (!measured.covers(shape)) continue;
        const double ranks = op.split != TpSplit::none ? tp : 1;
        least = std::min(least, ranks * static_cast<double>(tokens) * measured.least_per_token(shape));
      }
      seconds += std::isfinite(least) ? least : 0;
    }
    out.push_back(kBelow * seconds / speed);
  }
  return out;
}

/// Device-seconds a sample of each layer kind, forward and backward, on one device of a group as fast as its kind.
std::vector<double> device_seconds(const Problem& problem, std::size_t group) {
  if (problem.engine->measured != nullptr) return measured_seconds(problem, problem.cluster->groups[group].device.speed);
  const Cluster alone = problem.cluster->alone(group);
  const cost::CostContext context(*problem.model, alone, problem.training, *problem.engine);
  const auto batch = static_cast<std::int32_t>(problem.training.global_batch);
  std::vector<cost::LayerCost> layers;
  const Strategy one;
  cost::layer_costs(context, one, 1, batch, layers);
  const cost::Assembly x = cost::assembly_of(context, one, 1, layers, cost::ChunkEdges::exposed);
  std::vector<double> out;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    cost::ChunkTotal total;
    cost::ChunkSum sum(total);
    sum.add(x, static_cast<std::int32_t>(k), 1, RecomputeKind::none);
    const auto ns = static_cast<double>(total.forward.compute_ns + total.backward.compute_ns);
    out.push_back(kBelow * ns * 1e-9 / static_cast<double>(batch));
  }
  return out;
}

}  // namespace

std::int64_t work_bound_ns(const Problem& problem) {
  const std::size_t groups = problem.cluster->groups.size();
  std::vector<std::vector<double>> seconds;
  std::vector<double> weight;
  double capacity = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    seconds.push_back(device_seconds(problem, g));
    double whole = 0;
    for (const std::int32_t kind : problem.model->layers) whole += seconds[g][static_cast<std::size_t>(kind)];
    if (whole <= 0) return 0;
    weight.push_back(1.0 / whole);
    const std::int64_t first = problem.cluster->first_device(g);
    const NodeGroup& group = problem.cluster->groups[g];
    for (std::int64_t d = 0; d < group.nodes * group.devices_per_node; ++d)
      capacity += weight[g] * problem.cluster->speed_of(first + d);
  }
  double work = 0;
  for (const std::int32_t kind : problem.model->layers) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < groups; ++g) least = std::min(least, weight[g] * seconds[g][static_cast<std::size_t>(kind)]);
    work += least;
  }
  return static_cast<std::int64_t>(1e9 * static_cast<double>(problem.training.global_batch) * work / capacity);
}

double least_cost_of_work(const Problem& problem) {
  const std::vector<NodeGroup>& groups = problem.cluster->groups;
  std::vector<std::vector<double>> seconds;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].price_per_device_hour) return 0;
    seconds.push_back(device_seconds(problem, g));
  }
  double cost = 0;
  for (const std::int32_t kind : problem.model->layers) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < groups.size(); ++g)
      least = std::min(least, seconds[g][static_cast<std::size_t>(kind)] * *groups[g].price_per_device_hour / 3600);
    cost += least;
  }
  return cost * static_cast<double>(problem.training.global_batch);
}

std::vector<std::int64_t> deal_samples(const std::vector<PipelineEstimate>& pipelines, std::int64_t batch) {
  std::int64_t step = batch;
  for (const PipelineEstimate& p : pipelines) step = std::gcd(step, p.samples);
  const std::int64_t cells = batch / step;
  if (cells > kMostCells) return {};
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> best(static_cast<std::size_t>(cells) + 1, kNever);  // by samples dealt so far: the slowest pipeline
  best[0] = 0;
  std::vector<std::vector<std::int32_t>> taken;  // micro-batches of each pipeline at each number of samples
  for (const PipelineEstimate& p : pipelines) {
    std::vector<double> next(best.size(), kNever);
    std::vector<std::int32_t> own(best.size(), 0);
    const auto stride = static_cast<std::size_t>(p.samples / step);
    for (std::size_t have = 0; have < best.size(); ++have) {
      if (best[have] == kNever) continue;
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
  if (best.back() == kNever) return {};
  std::vector<std::int64_t> out(pipelines.size());
  auto at = static_cast<std::size_t>(cells);
  for (std::size_t k = pipelines.size(); k-- > 0;) {
    out[k] = taken[k][at];
    at -= static_cast<std::size_t>(out[k] * (pipelines[k].samples / step));
  }
  return out;
}

UnlikePipelinesOutcome unlike_pipelines(const Problem& problem, Evaluator& evaluator, const EachGroupOutcome& alone,
                                        std::int64_t incumbent_ns, const Options& options) {
  if (problem.cluster->groups.size() > kMostGroups) return {};
  return Search(problem, evaluator, incumbent_ns, options).run(alone);
}

}  // namespace espalier::search
