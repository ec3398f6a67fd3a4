// SPDX-License-Identifier: Apache-2.0
#include "search/uneven_replicas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/invariant.h"
#include "cost/chunk_sum.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "plan/sequence_lengths.h"
#include "search/below_prices.h"
#include "search/budgets.h"
#include "search/phase_context.h"
#include "search/replica_levels.h"
#include "search/replica_paces.h"
#include "search/stage_options.h"
#include "search/work_bound.h"

namespace espalier::search {
namespace {

constexpr std::int64_t kShareUnit = 10'000;  // an equal part of the states, as a weight
// Spare shares of the capacity of a rank, which are needed since its peak is not quite linear in its part.
constexpr std::array kSpared = {0.001, 0.02};

/// Holds a strategy of all replicas, and where they lie.
struct ReplicaStrategy {
  std::vector<std::size_t> groups;
  Strategy strategy;
  std::int64_t samples = 0;            ///< samples of a micro-batch, in all replicas
  std::vector<std::int64_t> replicas;  ///< number of replicas of each group
  double least_ns = 0;                 ///< least time of the arithmetic of a step, however samples are dealt
};

/// Holds a strategy with the samples of each replica.
struct Dealt {
  const ReplicaStrategy& way;
  std::vector<std::int64_t> samples;
};

std::vector<std::size_t> groups_of(const ReplicaStrategy& way) {
  std::vector<std::size_t> out;
  for (std::size_t g = 0; g < way.groups.size(); ++g)
    out.insert(out.end(), static_cast<std::size_t>(way.replicas[g]), way.groups[g]);
  return out;
}

/// Returns the least of the limit that the caller set (0: none) and that of the phase.
std::int64_t plan_limit(const Options& options) {
  const std::int64_t most = kMostReplicaPlans;
  return options.node_limit > 0 ? std::min(options.node_limit, most) : most;
}

class UnevenReplicasSearch {
 public:
  UnevenReplicasSearch(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options)
      : problem_(problem),
        evaluator_(evaluator),
        context_(problem, evaluator, {incumbent_ns, plan_limit(options), options.interrupted}, out_) {}
  PhaseOutcome run();

 private:
  [[nodiscard]] std::vector<ReplicaStrategy> ways();
  void add_ways(const std::vector<std::size_t>& groups, std::vector<ReplicaStrategy>& out);
  void add_way(const std::vector<std::size_t>& groups, const Strategy& strategy, std::vector<ReplicaStrategy>& out);
  /// Returns the time of the arithmetic of `samples` samples in a replica on group g, forward and backward.
  [[nodiscard]] double arithmetic_ns(std::size_t g, const Strategy& s, std::int64_t samples);
  [[nodiscard]] Pipeline pipeline_of(const Dealt& dealt, const std::vector<std::int64_t>& states) const;
  [[nodiscard]] Plan plan_of(const Dealt& dealt, const std::vector<std::int64_t>& states) const;
  /// Tries all deals of a strategy that may be faster than the best plan.
  void search(const ReplicaStrategy& way);
  [[nodiscard]] Levels highest_levels(const ReplicaStrategy& way, ReplicaPaces& paces) const;
  /// Returns the simulated time with equal parts of the states, after trying others where these do not fit; 0: a rule
  /// is broken.
  std::int64_t judge(const Dealt& dealt);
  std::optional<PlanEvaluation> evaluate(const Dealt& dealt, const std::vector<std::int64_t>& states);
  /// Returns the most by which an update gets shorter if each rank holds states in proportion to its speed.
  [[nodiscard]] std::int64_t least_update_gain(const Dealt& dealt) const;
  /// Returns how much each replica can hold, where an equal part is 1; empty if not all of the states fit.
  [[nodiscard]] std::vector<double> room(const Dealt& dealt, const PlanEvaluation& equal);

  const Problem& problem_;
  Evaluator& evaluator_;
  PhaseOutcome out_;
  PhaseContext context_;
  std::int64_t work_ns_ = 0;                                  ///< no plan takes less
  bool closed_ = true;                                        ///< plans that were not simulated are no faster than the best plan
  std::map<std::array<std::int64_t, 6>, double> arithmetic_;  ///< by group, tp, sp, recomputation (2), samples
};

double UnevenReplicasSearch::arithmetic_ns(std::size_t g, const Strategy& s, std::int64_t samples) {
  const auto [known, added] =
      arithmetic_.try_emplace({static_cast<std::int64_t>(g), s.tp, static_cast<std::int64_t>(s.sp),
                               static_cast<std::int64_t>(s.recompute.kind), s.recompute.modules.bits(), samples});
  if (!added) return known->second;
  const cost::CostContext& c = context_.costs().of(g);
  std::vector<cost::LayerCost> layers;
  Strategy one = s;
  one.dp = one.shard = 1;
  one.zero = ZeroStage::none;
  cost::layer_costs(c, one, 1, static_cast<std::int32_t>(samples), layers);
  const cost::StrategyCost x = cost::strategy_cost_of(c, one, 1, layers, cost::ChunkEdges::exposed);
  double ns = 0;
  for (const std::int32_t kind : problem_.model->layers) {
    const bool block = problem_.model->kinds[static_cast<std::size_t>(kind)].role == LayerRole::block;
    cost::ChunkTotal total;
    cost::ChunkSum sum(total);
    sum.add(x, kind, 1, block ? s.recompute.kind : RecomputeKind::none);
    ns += static_cast<double>(total.forward.compute_ns + total.backward.compute_ns);
  }
  return known->second = kBelow * ns;
}

void UnevenReplicasSearch::add_way(const std::vector<std::size_t>& groups, const Strategy& strategy,
                                   std::vector<ReplicaStrategy>& out) {
  const std::int64_t batch = problem_.training.global_batch;
  RuleFacts facts = rule_facts(*problem_.model, *problem_.cluster, problem_.training, 1);
  for (std::int64_t samples = strategy.dp; samples <= batch; samples += strategy.dp) {
    if (batch % samples != 0 || !stage_admitted(problem_, facts, strategy, samples)) continue;
    ReplicaStrategy way{groups, strategy, samples, {}, 0};
    for (const std::size_t g : groups) {
      const NodeGroup& group = problem_.cluster->groups[g];
      way.replicas.push_back(group.nodes * group.devices_per_node / strategy.tp);
    }
    const Levels levels = soonest_levels(
        way.replicas, samples, [&](std::size_t g, std::int64_t level) { return arithmetic_ns(groups[g], strategy, level); });
    for (std::size_t g = 0; g < groups.size(); ++g)
      way.least_ns = std::max(way.least_ns, arithmetic_ns(groups[g], strategy, levels[g]) * static_cast<double>(batch / samples));
    out.push_back(std::move(way));
  }
}

void UnevenReplicasSearch::add_ways(const std::vector<std::size_t>& groups, std::vector<ReplicaStrategy>& out) {
  std::int64_t devices = 0, common = 0;
  for (const std::size_t g : groups) {
    const NodeGroup& group = problem_.cluster->groups[g];
    devices += group.nodes * group.devices_per_node;
    common = std::gcd(common, group.devices_per_node);
  }
  const std::vector<Recompute> recomputes = layer_recomputes(problem_);
  for (std::int64_t tp = 1; tp <= common && common % tp == 0; tp *= 2)
    for (const SequenceParallel sp : {SequenceParallel::none, SequenceParallel::megatron})
      for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
        for (const Recompute& how : recomputes) {
          if (sp != SequenceParallel::none && tp == 1) continue;
          Strategy s;
          s.tp = static_cast<std::int32_t>(tp);
          s.sp = sp;
          s.dp = static_cast<std::int32_t>(devices / tp);
          s.zero = zero;
          s.shard = shards_optimizer(zero) ? s.dp : 1;
          s.overlap.grad_reduce = true;
          s.overlap.param_gather = shards_optimizer(zero);
          s.recompute = how;
          if (how.kind == RecomputeKind::full) s.recompute.layers = static_cast<std::int32_t>(problem_.model->blocks());
          add_way(groups, s, out);
        }
}

Pipeline UnevenReplicasSearch::pipeline_of(const Dealt& dealt, const std::vector<std::int64_t>& states) const {
  const ReplicaStrategy& way = dealt.way;
  Pipeline pipeline;
  pipeline.samples = problem_.training.global_batch;
  pipeline.schedule.micro_batch = static_cast<std::int32_t>(way.samples / way.strategy.dp);
  pipeline.schedule.microbatches = static_cast<std::int32_t>(problem_.training.global_batch / way.samples);
  Stage stage;
  for (const std::size_t g : way.groups) {
    const NodeGroup& group = problem_.cluster->groups[g];
    stage.devices.push_back({problem_.cluster->first_device(g), group.nodes * group.devices_per_node, 1});
  }
  stage.chunks.resize(1);
  stage.chunks.front().ranges = {{0, static_cast<std::int32_t>(problem_.model->layers.size()) - 1, way.strategy}};
  const auto differs = [](const std::vector<std::int64_t>& v) {
    return std::any_of(v.begin(), v.end(), [&](std::int64_t x) { return x != v.front(); });
  };
  if (differs(dealt.samples)) stage.samples_per_replica = dealt.samples;
  if (differs(states)) stage.state_shares = states;
  pipeline.stages = {std::move(stage)};
  return pipeline;
}

Plan UnevenReplicasSearch::plan_of(const Dealt& dealt, const std::vector<std::int64_t>& states) const {
  Plan plan;
  plan.training = problem_.training;
  plan.engine = problem_.engine->name;
  plan.pipelines = {pipeline_of(dealt, states)};
  return plan;
}

std::optional<PlanEvaluation> UnevenReplicasSearch::evaluate(const Dealt& dealt, const std::vector<std::int64_t>& states) {
  const Plan plan = plan_of(dealt, states);
  if (!plan_violations(*problem_.model, plan).empty()) return std::nullopt;
  const PlanEvaluation judged = context_.simulate(plan);
  ESPALIER_CHECK(judged.iteration_ns >= work_ns_ || !evaluator_.exact());
  if (judged.fits && judged.iteration_ns < context_.best_ns()) context_.offer(plan.pipelines, judged);
  return judged;
}

/// Returns the kind of each replica (cost::KindCosts), numbered in order of appearance. Replicas of one group with the
/// same number of samples form a kind.
std::vector<std::size_t> kinds_of(const Dealt& dealt) {
  const std::vector<std::size_t> group = groups_of(dealt.way);
  std::vector<std::pair<std::size_t, std::int64_t>> known;
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < group.size(); ++r) {
    const std::pair own{group[r], dealt.samples[r]};
    const auto at = std::find(known.begin(), known.end(), own);
    out.push_back(static_cast<std::size_t>(at - known.begin()));
    if (at == known.end()) known.push_back(own);
  }
  return out;
}

std::vector<double> UnevenReplicasSearch::room(const Dealt& dealt, const PlanEvaluation& equal) {
  // A second plan, with unequal parts by kind, shows how much a larger part costs.
  const std::vector<std::size_t> kind = kinds_of(dealt);
  const auto replicas = static_cast<double>(kind.size());
  std::vector<std::int64_t> weights;
  double all = 0;
  for (const std::size_t k : kind) {
    weights.push_back(k % 2 == 0 ? kShareUnit * 5 / 4 : kShareUnit * 4 / 5);
    all += static_cast<double>(weights.back());
  }
  const auto tried = evaluate(dealt, weights);
  if (!tried || tried->over.size() != equal.over.size()) return {};
  std::vector<double> holds;
  double sum = 0;
  for (std::size_t r = 0; r < kind.size(); ++r) {
    const double more = static_cast<double>(weights[r]) / all * replicas - 1.0;
    const auto lacks = static_cast<double>(equal.over[kind[r]]);
    const double bytes = std::abs(more) < 1e-9 ? 0.0 : (static_cast<double>(tried->over[kind[r]]) - lacks) / more;
    if (bytes <= 0) return {};
    holds.push_back(std::max(1.0 / static_cast<double>(kShareUnit), 1.0 - lacks / bytes));
    sum += holds.back();
  }
  if (sum < replicas) return {};
  return holds;
}

/// Returns the gain of the best parts. An update that takes all ranks equally long takes d / Σ 1/U over d replicas,
/// where U is the time of a replica for equal parts.
std::int64_t UnevenReplicasSearch::least_update_gain(const Dealt& dealt) const {
  const std::vector<std::size_t> kind = kinds_of(dealt);
  Program program;
  std::vector<cost::KindCosts> of_kinds;
  cost::price(context_.costs(), plan_of(dealt, {}), program, &of_kinds);
  double longest = 0, rates = 0;
  for (const std::size_t k : kind) {
    double update = 0;
    for (std::size_t i = 0; k < of_kinds.size() && i < program.works.size(); ++i) {
      const WorkId id(static_cast<std::int32_t>(i));
      if (program.works[id].phase == InstructionKind::optimizer)
        update += static_cast<double>(of_kinds[k].costs.works[id].time.duration_ns());
    }
    if (update <= 0) return 0;
    longest = std::max(longest, update);
    rates += 1.0 / update;
  }
  return std::llround(longest - static_cast<double>(kind.size()) / rates);
}

std::int64_t UnevenReplicasSearch::judge(const Dealt& dealt) {
  const std::vector<std::int64_t> equal_parts(dealt.samples.size(), kShareUnit);
  const auto equal = evaluate(dealt, equal_parts);
  if (!equal) return 0;
  if (equal->fits) return equal->iteration_ns;
  ++out_.out_of_memory;
  const bool divisible = dealt.way.strategy.shards_optimizer() && !equal->over.empty();
  if (!divisible || equal->iteration_ns - least_update_gain(dealt) >= context_.best_ns()) return equal->iteration_ns;
  const std::vector<double> holds = room(dealt, *equal);
  if (holds.empty()) return equal->iteration_ns;
  const double most = 1 - static_cast<double>(holds.size()) / std::accumulate(holds.begin(), holds.end(), 0.0);
  for (const double spared : {kSpared.front(), kSpared.back(), most}) {
    if (spared > most) continue;
    const auto fitted = evaluate(dealt, most_even_parts(holds, spared, kShareUnit));
    if (fitted && fitted->fits) break;
  }
  return equal->iteration_ns;
}

/// Limits the levels to the number of samples, and to those that can be faster than the best plan.
Levels UnevenReplicasSearch::highest_levels(const ReplicaStrategy& way, ReplicaPaces& paces) const {
  const std::int64_t microbatches = problem_.training.global_batch / way.samples;
  const std::int64_t others = way.samples - std::accumulate(way.replicas.begin(), way.replicas.end(), std::int64_t{0});
  Levels most;
  for (std::size_t g = 0; g < way.groups.size(); ++g) {
    const std::int64_t all = 1 + (others + way.replicas[g] - 1) / way.replicas[g];
    std::int64_t level = 0;
    while (level < all && microbatches * paces.of(g, level + 1).both() < context_.best_ns()) ++level;
    most.push_back(level);
  }
  return most;
}

/// Simulates the deal of the shortest passes first. Another deal differs from it in its passes alone, m of each, so
/// it is faster by at most m times the difference.
void UnevenReplicasSearch::search(const ReplicaStrategy& way) {
  const std::int64_t microbatches = problem_.training.global_batch / way.samples;
  ReplicaPaces paces(*problem_.model, context_.costs(),
                     pipeline_of({way, std::vector<std::int64_t>(groups_of(way).size(), 1)}, {}), way.groups);
  std::optional<std::vector<Levels>> all =
      lowest_levels(way.replicas, way.samples, highest_levels(way, paces), kMostReplicaSplits);
  if (!all) {
    closed_ = false;
    all = {soonest_levels(way.replicas, way.samples,
                          [&](std::size_t g, std::int64_t level) { return static_cast<double>(paces.of(g, level).both()); })};
  }
  std::stable_sort(all->begin(), all->end(),
                   [&](const Levels& a, const Levels& b) { return paces.of_stage(a).both() < paces.of_stage(b).both(); });
  std::optional<ReplicaPace> first;
  std::int64_t first_ns = 0;
  for (const Levels& levels : *all) {
    const ReplicaPace pace = paces.of_stage(levels);
    if (microbatches * pace.both() >= context_.best_ns()) break;
    if (first) {
      const std::int64_t shorter =
          std::max<std::int64_t>(0, first->forward - pace.forward) + std::max<std::int64_t>(0, first->backward - pace.backward);
      if (first_ns - microbatches * shorter >= context_.best_ns()) continue;
    }
    if (context_.stopped()) {
      closed_ = false;
      return;
    }
    const std::int64_t ns = judge({way, dealt_at(way.replicas, levels, way.samples)});
    if (ns == 0) return;
    if (first) continue;
    first = pace;
    first_ns = ns;
  }
}

std::vector<ReplicaStrategy> UnevenReplicasSearch::ways() {
  std::vector<ReplicaStrategy> all;
  const std::size_t groups = problem_.cluster->groups.size();
  const bool one_stage = problem_.space.admits(Dimension::pp, 1);
  for (std::size_t set = 1; one_stage && groups <= kMostReplicaGroups && set < (std::size_t{1} << groups); ++set) {
    std::vector<std::size_t> chosen;
    for (std::size_t g = 0; g < groups; ++g)
      if ((set >> g & 1) != 0) chosen.push_back(g);
    if (chosen.size() > 1 && (chosen.size() == groups || problem_.space.devices != DeviceChoice::all)) add_ways(chosen, all);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const ReplicaStrategy& a, const ReplicaStrategy& b) { return a.least_ns < b.least_ns; });
  return all;
}

PhaseOutcome UnevenReplicasSearch::run() {
  work_ns_ = work_bound_ns(problem_);
  // With balanced samples of unequal length, a replica with more samples is loaded so much more evenly that it need
  // not take longer.
  closed_ = problem_.cluster->groups.size() <= kMostReplicaGroups && !length_facts(problem_.training).balanced;
  const std::vector<ReplicaStrategy> all = ways();
  out_.bounded = static_cast<std::int64_t>(all.size());
  for (const ReplicaStrategy& way : all) {
    if (static_cast<double>(context_.best_ns()) <= way.least_ns) break;
    if (context_.stopped()) {
      out_.complete = closed_ = false;
      break;
    }
    search(way);
  }
  out_.complete = out_.complete && !out_.interrupted;
  out_.lower_bound_ns = closed_ && out_.complete ? context_.best_ns() : work_ns_;
  return std::move(out_);
}

}  // namespace

PhaseOutcome uneven_replicas(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options) {
  return UnevenReplicasSearch(problem, evaluator, incumbent_ns, options).run();
}

}  // namespace espalier::search
