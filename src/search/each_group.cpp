// SPDX-License-Identifier: Apache-2.0
#include "search/each_group.h"

#include <algorithm>

#include "base/check.h"

namespace espalier::search {
Plan in_cluster(const Problem& problem, const Cluster& alone, std::int64_t first_device, const Configuration& found) {
  Plan plan = make_uniform_plan(*problem.model, alone, problem.training, problem.engine->name, found.strategy, found.schedule,
                                problem.engine->split);
  for (Stage& stage : plan.only_pipeline().stages)
    for (DeviceRange& range : stage.devices) range.first += first_device;
  return plan;
}

Cluster group_alone(const Cluster& cluster, std::size_t group) {
  Cluster out = cluster.alone(group);
  const double speed = cluster.slowest_of(cluster.first_device(group), out.devices());
  if (speed != 1.0) out.groups.front().device = out.groups.front().device.at_speed(speed);
  return out;
}

SearchSpace space_alone(SearchSpace space) {
  space.kind = SpaceKind::uniform;
  for (const RankOrder order : {RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp})
    space.forbid["order"].push_back(static_cast<std::int64_t>(order));
  return space;
}

namespace {

/// A group's devices all as fast as the fastest of them.
Cluster as_fastest(const Cluster& cluster, std::size_t group) {
  Cluster out = cluster.alone(group);
  const std::int64_t first = cluster.first_device(group);
  double speed = cluster.speed_of(first);
  for (std::int64_t device = first; device < first + out.devices(); ++device) speed = std::max(speed, cluster.speed_of(device));
  if (speed != 1.0) out.groups.front().device = out.groups.front().device.at_speed(speed);
  return out;
}

/// Adds what was counted.
void count(const Outcome& found, EachGroupOutcome& out) {
  out.bounded += found.bounded;
  out.simulations += found.simulations;
  out.complete = out.complete && found.complete;
  out.interrupted = out.interrupted || found.interrupted;
}

/// The best of the first `most` plans that were found on a group, on the devices of the cluster. Stages without the slow devices of a group take less
/// there than when it was searched.
void judge(const Problem& problem, Evaluator& evaluator, const cost::ClusterCosts& costs, std::size_t group, const Cluster& alone,
           const Outcome& found, EachGroupOutcome& out) {
  const bool as_it_is = problem.cluster->alone(group) == alone;
  const std::size_t most = as_it_is ? 1 : kJudgedOfUnequal;
  for (std::size_t n = 0; n < std::min(most, found.simulated.size()); ++n) {
    const Candidate& candidate = n == 0 ? *found.best : found.simulated[n];
    const Plan plan = in_cluster(problem, alone, problem.cluster->first_device(group), candidate.configuration);
    const std::optional<PlanEvaluation> judged = evaluator.evaluate(problem, costs, plan);
    ESPALIER_CHECK(judged && (judged->fits || !evaluator.exact()));
    ESPALIER_CHECK(judged->iteration_ns == candidate.iteration_ns || !as_it_is || !evaluator.exact());
    if (!judged->fits) continue;
    if (!out.best || judged->iteration_ns < out.best->iteration_ns) out.best = {plan.pipelines, judged->iteration_ns};
  }
}

}  // namespace

EachGroupOutcome each_group(const Problem& problem, Evaluator& evaluator, const Options& options) {
  EachGroupOutcome out;
  out.lower_bound_ns = INT64_MAX;
  const cost::ClusterCosts costs(*problem.model, *problem.cluster, problem.training, *problem.engine);
  Problem own = problem;
  own.space = space_alone(problem.space);
  for (std::size_t g = 0; g < problem.cluster->groups.size(); ++g) {
    const Cluster alone = group_alone(*problem.cluster, g), fastest = as_fastest(*problem.cluster, g);
    own.cluster = &alone;
    Outcome found = branch_and_bound(own, evaluator, options);
    count(found, out);
    if (found.best) judge(problem, evaluator, costs, g, alone, found, out);
    std::int64_t bound = !found.complete || found.best ? found.lower_bound_ns : INT64_MAX;
    if (bound != INT64_MAX && fastest != alone) {
      own.cluster = &fastest;
      const Outcome least = branch_and_bound(own, evaluator, options);
      count(least, out);
      bound = least.lower_bound_ns;
    }
    out.lower_bound_ns = std::min(out.lower_bound_ns, bound);
    out.groups.push_back({found.best, std::move(found.simulated), found.space_size});
  }
  if (out.best) out.lower_bound_ns = std::min(out.lower_bound_ns, out.best->iteration_ns);
  return out;
}

}  // namespace espalier::search
