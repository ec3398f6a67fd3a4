// SPDX-License-Identifier: Apache-2.0
#include "search/unequal_replicas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "base/check.h"
#include "cost/chunk_sum.h"
#include "plan/rules.h"
#include "search/stage_options.h"
#include "search/unlike_pipelines.h"

namespace espalier::search {
namespace {

constexpr double kBelow = 1.0 - 1e-4;      // of the time of the arithmetic: bounds stay bounds when it is rounded
constexpr std::int64_t kShareUnit = 1000;  // an equal part of the states, as a weight
constexpr std::int64_t kMostMoves = 60;

/// A strategy of all replicas, and where they lie.
struct Way {
  std::vector<std::size_t> groups;
  Strategy strategy;
  std::int64_t samples = 0;           ///< of a micro-batch, in all replicas
  std::vector<std::size_t> group_of;  ///< of each replica
  std::vector<std::int64_t> dealt;    ///< samples of each replica
  double least_s = 0;                 ///< of the arithmetic of a step
};

class Search {
 public:
  Search(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        costs_(*problem.model, *problem.cluster, problem.training, *problem.engine),
        incumbent_ns_(incumbent_ns > 0 ? incumbent_ns : INT64_MAX) {}
  UnequalReplicasOutcome run();

 private:
  void add_ways(const std::vector<std::size_t>& groups, std::vector<Way>& out);
  void add_way(const std::vector<std::size_t>& groups, const Strategy& strategy, std::vector<Way>& out);
  /// Of a sample in a replica on group g, forward and backward.
  [[nodiscard]] double seconds_of(std::size_t g, const Strategy& s, std::int64_t samples) const;
  [[nodiscard]] Plan plan_of(const Way& way, const std::vector<std::int64_t>& states) const;
  /// Simulated time with parts of the states that fit; 0: none do, or a rule is broken.
  std::int64_t judge(const Way& way);
  std::optional<PlanEvaluation> evaluate(const Way& way, const std::vector<std::int64_t>& states);
  /// Parts by what each replica's memory can hold; empty: not all of the states.
  [[nodiscard]] std::vector<std::int64_t> parts(const Way& way, const PlanEvaluation& equal);
  void improve(Way way, std::int64_t ns);
  [[nodiscard]] std::int64_t best_ns() const {
    return out_.best ? std::min(incumbent_ns_, out_.best->iteration_ns) : incumbent_ns_;
  }
  [[nodiscard]] bool stopped() {
    if (options_.interrupted && options_.interrupted()) out_.interrupted = true;
    return out_.interrupted || out_.simulations >= kMostReplicaPlans ||
           (options_.node_limit > 0 && out_.simulations >= options_.node_limit);
  }

  const Problem& problem_;
  Evaluator& evaluator_;
  const Options& options_;
  const cost::ClusterCosts costs_;
  const std::int64_t incumbent_ns_;
  UnequalReplicasOutcome out_;
};

double Search::seconds_of(std::size_t g, const Strategy& s, std::int64_t samples) const {
  const cost::CostContext& c = costs_.of(g);
  std::vector<cost::LayerCost> layers;
  Strategy one = s;
  one.dp = one.shard = 1;
  one.zero = ZeroStage::none;
  cost::layer_costs(c, one, 1, static_cast<std::int32_t>(samples), layers);
  const cost::Assembly x = cost::assembly_of(c, one, 1, layers, cost::ChunkEdges::exposed);
  double ns = 0;
  for (const std::int32_t kind : problem_.model->layers) {
    const bool block = problem_.model->kinds[static_cast<std::size_t>(kind)].role == LayerRole::block;
    cost::ChunkTotal total;
    cost::ChunkSum sum(total);
    sum.add(x, kind, 1, block ? s.recompute.kind : RecomputeKind::none);
    ns += static_cast<double>(total.forward.compute_ns + total.backward.compute_ns);
  }
  return kBelow * ns * 1e-9 / static_cast<double>(samples);
}

void Search::add_way(const std::vector<std::size_t>& groups, const Strategy& strategy, std::vector<Way>& out) {
  const std::int64_t batch = problem_.training.global_batch;
  RuleFacts facts = rule_facts(*problem_.model, *problem_.cluster, problem_.training, 1);
  for (std::int64_t samples = strategy.dp; samples <= batch; samples += strategy.dp) {
    if (batch % samples != 0 || !stage_admitted(problem_, facts, strategy, samples)) continue;
    Way way{groups, strategy, samples, {}, {}, 0};
    std::vector<double> seconds;
    const std::int64_t mean = samples / strategy.dp;
    for (const std::size_t g : groups) {
      const NodeGroup& group = problem_.cluster->groups[g];
      const std::int64_t replicas = group.nodes * group.devices_per_node / strategy.tp;
      const double of_group = seconds_of(g, strategy, mean);
      way.group_of.insert(way.group_of.end(), static_cast<std::size_t>(replicas), g);
      seconds.insert(seconds.end(), static_cast<std::size_t>(replicas), of_group);
    }
    way.dealt = deal_to_replicas(seconds, samples);
    for (std::size_t r = 0; r < seconds.size(); ++r)
      way.least_s = std::max(way.least_s, seconds[r] * static_cast<double>(way.dealt[r]) * static_cast<double>(batch / samples));
    out.push_back(std::move(way));
  }
}

void Search::add_ways(const std::vector<std::size_t>& groups, std::vector<Way>& out) {
  std::int64_t devices = 0, common = 0;
  for (const std::size_t g : groups) {
    const NodeGroup& group = problem_.cluster->groups[g];
    devices += group.nodes * group.devices_per_node;
    common = std::gcd(common, group.devices_per_node);
  }
  for (std::int64_t tp = 1; tp <= common && common % tp == 0; tp *= 2)
    for (const SequenceParallel sp : {SequenceParallel::none, SequenceParallel::megatron})
      for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
        for (const RecomputeKind how : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full}) {
          if (sp != SequenceParallel::none && tp == 1) continue;
          Strategy s;
          s.tp = static_cast<std::int32_t>(tp);
          s.sp = sp;
          s.dp = static_cast<std::int32_t>(devices / tp);
          s.zero = zero;
          s.shard = shards_optimizer(zero) ? s.dp : 1;
          s.overlap.grad_reduce = true;
          s.overlap.param_gather = shards_optimizer(zero);
          s.recompute.kind = how;
          if (how == RecomputeKind::full)
            for (const std::int32_t kind : problem_.model->layers)
              s.recompute.layers += problem_.model->kinds[static_cast<std::size_t>(kind)].role == LayerRole::block ? 1 : 0;
          add_way(groups, s, out);
        }
}

Plan Search::plan_of(const Way& way, const std::vector<std::int64_t>& states) const {
  Plan plan;
  plan.training = problem_.training;
  plan.engine = problem_.engine->name;
  Pipeline& pipeline = plan.only_pipeline();
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
  if (differs(way.dealt)) stage.samples_per_replica = way.dealt;
  if (differs(states)) stage.state_shares = states;
  pipeline.stages = {std::move(stage)};
  return plan;
}

std::optional<PlanEvaluation> Search::evaluate(const Way& way, const std::vector<std::int64_t>& states) {
  Plan plan = plan_of(way, states);
  if (!plan_violations(*problem_.model, plan).empty()) return std::nullopt;
  ++out_.simulations;
  auto judged = evaluator_.evaluate(problem_, costs_, plan);
  ESPALIER_CHECK(judged && (judged->iteration_ns >= out_.lower_bound_ns || !evaluator_.exact()));
  if (judged->fits && judged->iteration_ns < best_ns())
    out_.best = GroupedCandidate{std::move(plan.pipelines), judged->iteration_ns};
  return judged;
}

/// The replicas of one group that take as many samples are a kind (cost::KindCosts), in the order in which they come.
std::vector<std::size_t> kinds_of(const Way& way) {
  std::vector<std::pair<std::size_t, std::int64_t>> known;
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < way.group_of.size(); ++r) {
    const std::pair own{way.group_of[r], way.dealt[r]};
    const auto at = std::find(known.begin(), known.end(), own);
    out.push_back(static_cast<std::size_t>(at - known.begin()));
    if (at == known.end()) known.push_back(own);
  }
  return out;
}

std::vector<std::int64_t> Search::parts(const Way& way, const PlanEvaluation& equal) {
  // A second plan, its parts unequal by kind, says what a larger part costs.
  const std::vector<std::size_t> kind = kinds_of(way);
  const auto replicas = static_cast<double>(kind.size());
  std::vector<std::int64_t> weights;
  double all = 0;
  for (const std::size_t k : kind) {
    weights.push_back(k % 2 == 0 ? kShareUnit * 5 / 4 : kShareUnit * 4 / 5);
    all += static_cast<double>(weights.back());
  }
  const auto tried = evaluate(way, weights);
  if (!tried || tried->fits || tried->over.size() != equal.over.size()) return {};
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
  for (std::size_t r = 0; r < kind.size(); ++r)
    weights[r] = std::max<std::int64_t>(1, std::llround(holds[r] / sum * replicas * static_cast<double>(kShareUnit)));
  return weights;
}

std::int64_t Search::judge(const Way& way) {
  const std::vector<std::int64_t> equal_parts(way.group_of.size(), kShareUnit);
  const auto equal = evaluate(way, equal_parts);
  if (!equal) return 0;
  if (equal->fits) return equal->iteration_ns;
  ++out_.without_room;
  if (!shards_optimizer(way.strategy.zero) || equal->iteration_ns >= best_ns() || equal->over.empty()) return 0;
  const std::vector<std::int64_t> unequal = parts(way, *equal);
  if (unequal.empty()) return 0;
  const auto fitted = evaluate(way, unequal);
  return fitted && fitted->fits ? fitted->iteration_ns : 0;
}

/// Moves one sample of every replica of a group to another, as long as that helps.
void Search::improve(Way way, std::int64_t ns) {
  std::int64_t moves = 0;
  for (bool better = true; better && moves < kMostMoves && !stopped();) {
    better = false;
    for (std::size_t from = 0; from < way.dealt.size() && !better && moves < kMostMoves; ++from)
      for (std::size_t to = 0; to < way.dealt.size() && !better && moves < kMostMoves; ++to) {
        if (way.group_of[from] == way.group_of[to] || way.dealt[from] < 2) continue;
        if (from > 0 && way.group_of[from - 1] == way.group_of[from] && way.dealt[from - 1] == way.dealt[from]) continue;
        if (to > 0 && way.group_of[to - 1] == way.group_of[to] && way.dealt[to - 1] == way.dealt[to]) continue;
        Way moved = way;
        --moved.dealt[from];
        ++moved.dealt[to];
        ++moves;
        const std::int64_t found = judge(moved);
        if (found == 0 || found >= ns) continue;
        ns = found;
        way = std::move(moved);
        better = true;
      }
  }
}

UnequalReplicasOutcome Search::run() {
  out_.lower_bound_ns = work_bound_ns(problem_);
  const std::size_t groups = problem_.cluster->groups.size();
  std::vector<Way> ways;
  const bool one_stage = problem_.space.admits(std::string(to_string(Dimension::pp)), 1);
  for (std::size_t set = 1; one_stage && groups <= kMostReplicaGroups && set < (std::size_t{1} << groups); ++set) {
    std::vector<std::size_t> chosen;
    for (std::size_t g = 0; g < groups; ++g)
      if ((set >> g & 1) != 0) chosen.push_back(g);
    if (chosen.size() > 1 && (chosen.size() == groups || problem_.space.devices != DeviceChoice::all)) add_ways(chosen, ways);
  }
  out_.considered = static_cast<std::int64_t>(ways.size());
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.least_s < b.least_s; });
  const Way* best = nullptr;
  for (const Way& way : ways) {
    if (static_cast<double>(best_ns()) <= way.least_s * 1e9) break;
    if (stopped()) {
      out_.complete = false;
      break;
    }
    const std::int64_t before = best_ns(), ns = judge(way);
    if (ns > 0 && ns < before) best = &way;
  }
  if (best != nullptr && out_.best) improve(*best, out_.best->iteration_ns);
  out_.complete = out_.complete && !out_.interrupted;
  return std::move(out_);
}

}  // namespace

std::vector<std::int64_t> deal_to_replicas(const std::vector<double>& seconds, std::int64_t samples) {
  const auto replicas = static_cast<std::int64_t>(seconds.size());
  if (samples < replicas || replicas == 0) return {};
  std::vector<std::int64_t> dealt(seconds.size(), 1);
  using End = std::pair<double, std::size_t>;  // when the replica would end with one more
  std::priority_queue<End, std::vector<End>, std::greater<>> next;
  for (std::size_t r = 0; r < seconds.size(); ++r) next.push({2 * seconds[r], r});
  for (std::int64_t left = samples - replicas; left > 0; --left) {
    const std::size_t r = next.top().second;
    next.pop();
    ++dealt[r];
    next.push({static_cast<double>(dealt[r] + 1) * seconds[r], r});
  }
  return dealt;
}

UnequalReplicasOutcome unequal_replicas(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns,
                                        const Options& options) {
  return Search(problem, evaluator, incumbent_ns, options).run();
}

}  // namespace espalier::search
