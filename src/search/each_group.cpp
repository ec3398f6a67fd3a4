// SPDX-License-Identifier: Apache-2.0
#include "search/each_group.h"

#include <algorithm>

#include "base/check.h"

namespace espalier::search {
namespace {

/// A plan of the group on the devices that it has in the cluster.
Plan in_cluster(const Problem& problem, const Cluster& alone, std::int64_t first_device, const Configuration& found) {
  Plan plan = make_uniform_plan(*problem.model, alone, problem.training, problem.engine->name, found.strategy, found.schedule,
                                problem.engine->split);
  for (Stage& stage : plan.only_pipeline().stages)
    for (DeviceRange& range : stage.devices) range.first += first_device;
  return plan;
}

}  // namespace

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

EachGroupOutcome each_group(const Problem& problem, Evaluator& evaluator, const Options& options) {
  EachGroupOutcome out;
  out.lower_bound_ns = INT64_MAX;
  const cost::ClusterCosts costs(*problem.model, *problem.cluster, problem.training, *problem.engine);
  Problem own = problem;
  own.space = space_alone(problem.space);
  for (std::size_t g = 0; g < problem.cluster->groups.size(); ++g) {
    const Cluster alone = group_alone(*problem.cluster, g);
    own.cluster = &alone;
    Outcome found = branch_and_bound(own, evaluator, options);
    out.bounded += found.bounded;
    out.simulations += found.simulations;
    out.complete = out.complete && found.complete;
    out.interrupted = out.interrupted || found.interrupted;
    if (!found.complete || found.best) out.lower_bound_ns = std::min(out.lower_bound_ns, found.lower_bound_ns);
    out.groups.push_back({found.best, found.space_size});
    if (!found.best) continue;
    const Plan plan = in_cluster(problem, alone, problem.cluster->first_device(g), found.best->configuration);
    const std::optional<PlanEvaluation> judged = evaluator.evaluate(problem, costs, plan);
    ESPALIER_CHECK(judged && judged->fits && judged->iteration_ns == found.best->iteration_ns);
    if (!out.best || judged->iteration_ns < out.best->iteration_ns) out.best = {plan.pipelines, judged->iteration_ns};
  }
  return out;
}

}  // namespace espalier::search
