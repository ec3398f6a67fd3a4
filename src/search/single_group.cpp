// SPDX-License-Identifier: Apache-2.0
#include "search/single_group.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/uniform.h"
#include "search/budgets.h"
#include "search/node_sets.h"
#include "search/phase_context.h"
#include "search/work_bound.h"

namespace espalier::search {

Pipeline in_cluster(const Problem& problem, std::int64_t first_device, const Configuration& found) {
  Pipeline pipeline = uniform_pipeline(*problem.model, problem.training, found.strategy, found.schedule, problem.engine->split);
  for (Stage& stage : pipeline.stages)
    for (DeviceRange& range : stage.devices) range.first += first_device;
  return pipeline;
}

Cluster group_alone(const Cluster& cluster, std::size_t group) {
  return nodes_alone(cluster, group, cluster.groups[group].nodes);
}

Cluster nodes_alone(const Cluster& cluster, std::size_t group, std::int64_t nodes) {
  Cluster out = cluster.alone(group);
  out.groups.front().nodes = nodes;
  const double speed = cluster.slowest_of(cluster.first_device(group), out.devices());
  if (speed != 1.0) out.groups.front().device = out.groups.front().device.at_speed(speed);
  if (nodes == 1 && cluster.groups[group].nodes > 1) out.inter.clear();
  return out;
}

SearchSpace space_alone(SearchSpace space) {
  space.kind = SpaceKind::uniform;
  return space;
}

namespace {

/// Returns the speed of the fastest device of a group.
double fastest_of(const Cluster& cluster, std::size_t group) {
  const std::int64_t first = cluster.first_device(group),
                     end = first + cluster.groups[group].nodes * cluster.groups[group].devices_per_node;
  double speed = cluster.speed_of(first);
  for (std::int64_t device = first; device < end; ++device) speed = std::max(speed, cluster.speed_of(device));
  return speed;
}

/// Returns a group with all devices as fast as the fastest of them.
Cluster as_fastest(const Cluster& cluster, std::size_t group) {
  Cluster out = cluster.alone(group);
  const double speed = fastest_of(cluster, group);
  if (speed != 1.0) out.groups.front().device = out.groups.front().device.at_speed(speed);
  return out;
}

/// Returns the first nodes of a group, or the first devices of its first node, with all devices at one speed.
Cluster part_of(const Cluster& whole, std::int64_t nodes, std::int64_t devices_per_node, double speed) {
  Cluster out = whole;
  NodeGroup& group = out.groups.front();
  group.nodes = nodes;
  if (speed != 1.0) group.device = group.device.at_speed(speed);
  if (nodes == 1) out.inter.clear();
  if (devices_per_node == group.devices_per_node) return out;
  std::vector<FabricLevel> inside;
  for (FabricLevel level : group.intra) {
    const bool outermost = level.span >= devices_per_node;
    level.span = std::min(level.span, devices_per_node);
    if (devices_per_node > 1) inside.push_back(std::move(level));
    if (outermost) break;
  }
  group.intra = std::move(inside);
  group.devices_per_node = devices_per_node;
  return out;
}

class SingleGroupSearch {
 public:
  SingleGroupSearch(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        work_(problem),
        context_(problem, evaluator, {incumbent_ns, options.node_limit, options.interrupted}, out_),
        own_(problem) {
    own_.space = space_alone(problem.space);
    out_.lower_bound_ns = INT64_MAX;
  }

  SingleGroupOutcome run(bool whole);

 private:
  void search_whole(std::size_t group);
  void search_parts(std::size_t group);
  /// Returns false if no smaller part is worth searching.
  bool search_part(std::size_t group, const Cluster& whole, std::int64_t nodes, std::int64_t devices_per_node);
  Outcome search(const Cluster& alone, std::int64_t slowest_ns);
  std::int64_t judge(std::size_t group, const Cluster& alone, const Configuration& found);
  void leave(std::int64_t bound_ns) { out_.lower_bound_ns = std::min(out_.lower_bound_ns, bound_ns); }

  const Problem& problem_;
  Evaluator& evaluator_;
  const Options& options_;
  const WorkBound work_;
  SingleGroupOutcome out_;
  PhaseContext context_;
  Problem own_;
  std::size_t parts_ = 0;
};

Outcome SingleGroupSearch::search(const Cluster& alone, std::int64_t slowest_ns) {
  own_.cluster = &alone;
  Options how = options_;
  how.slowest_ns = slowest_ns;
  if (how.node_limit > 0) how.node_limit = std::max<std::int64_t>(1, how.node_limit - out_.simulations);
  Outcome found = branch_and_bound(own_, evaluator_, how);
  out_.bounded += found.bounded;
  out_.simulations += found.simulations;
  out_.complete = out_.complete && found.complete;
  out_.interrupted = out_.interrupted || found.interrupted;
  return found;
}

/// Returns the simulated time of a plan of a group on the devices of the cluster; 0: it does not fit there.
std::int64_t SingleGroupSearch::judge(std::size_t group, const Cluster& alone, const Configuration& found) {
  const Plan plan = plan_of_pipeline(*problem_.model, alone, problem_.training, problem_.engine->name,
                                     in_cluster(problem_, problem_.cluster->first_device(group), found));
  const std::optional<PlanEvaluation> judged = evaluator_.evaluate(problem_, context_.costs(), plan);
  ESPALIER_CHECK(judged.has_value());
  return context_.offer(plan.pipelines, *judged) ? judged->iteration_ns : 0;
}

void SingleGroupSearch::search_whole(std::size_t group) {
  const Cluster alone = group_alone(*problem_.cluster, group), fastest = as_fastest(*problem_.cluster, group);
  const bool as_it_is = problem_.cluster->alone(group) == alone;
  Outcome found = search(alone, INT64_MAX);
  // Stages without the slow devices of a group take less there than in the search.
  const std::size_t most = as_it_is ? 1 : kJudgedOfUnequal;
  for (std::size_t n = 0; found.best && n < std::min(most, found.simulated.size()); ++n) {
    const Candidate& candidate = n == 0 ? *found.best : found.simulated[n];
    const std::int64_t ns = judge(group, alone, candidate.configuration);
    ESPALIER_CHECK(ns > 0 || !evaluator_.exact());
    ESPALIER_CHECK(ns == candidate.iteration_ns || !as_it_is || !evaluator_.exact());
  }
  std::int64_t bound = !found.complete || found.best ? found.lower_bound_ns : INT64_MAX;
  if (bound != INT64_MAX && fastest != alone) bound = search(fastest, INT64_MAX).lower_bound_ns;
  leave(bound);
  out_.groups.push_back({found.best, std::move(found.simulated), found.space_size});
}

bool SingleGroupSearch::search_part(std::size_t group, const Cluster& whole, std::int64_t nodes, std::int64_t devices_per_node) {
  std::vector<double> devices(problem_.cluster->groups.size(), 0.0);
  // The bound counts devices of the nominal speed.
  devices[group] = static_cast<double>(nodes * devices_per_node) * std::max(1.0, fastest_of(*problem_.cluster, group));
  const std::int64_t work_ns = work_.ns(devices, problem_.training.global_batch);
  if (work_ns >= context_.best_ns()) return false;
  if (parts_++ == kMostGroupParts || out_.interrupted || !out_.complete) {
    leave(work_ns);
    return false;
  }
  const double slowest = problem_.cluster->slowest_of(problem_.cluster->first_device(group), nodes * devices_per_node);
  const Cluster part = part_of(whole, nodes, devices_per_node, slowest);
  const std::int64_t before = context_.best_ns();
  const Outcome found = search(part, before);
  std::int64_t bound = found.complete ? (found.best ? found.lower_bound_ns : before) : std::max(work_ns, found.lower_bound_ns);
  // Other plans may leave the slow devices little work.
  if (!problem_.cluster->groups[group].speed.empty()) bound = work_ns;
  // The bound of a part as a cluster of its own counts where a plan costs the same in both.
  if (found.best && judge(group, part, found.best->configuration) != found.best->iteration_ns) bound = work_ns;
  leave(bound);
  return true;
}

/// Searches parts from the largest to the smallest; a smaller part has more work per device.
void SingleGroupSearch::search_parts(std::size_t group) {
  const NodeGroup& own = problem_.cluster->groups[group];
  parts_ = 0;
  const Cluster whole = problem_.cluster->alone(group);
  for (std::int64_t nodes = own.nodes - 1; nodes >= 1; --nodes)
    if (!search_part(group, whole, nodes, own.devices_per_node)) return;
  for (std::int64_t devices = own.devices_per_node / 2; devices >= 1; devices /= 2)
    if (own.devices_per_node % devices == 0 && !search_part(group, whole, 1, devices)) return;
}

SingleGroupOutcome SingleGroupSearch::run(bool whole) {
  for (std::size_t g = 0; g < problem_.cluster->groups.size() && whole; ++g) search_whole(g);
  for (std::size_t g = 0; g < problem_.cluster->groups.size() && problem_.space.devices != DeviceChoice::all; ++g)
    search_parts(g);
  if (out_.best) leave(out_.best->iteration_ns);
  return std::move(out_);
}

}  // namespace

SingleGroupOutcome single_group(const Problem& problem, Evaluator& evaluator, const Options& options, std::int64_t incumbent_ns,
                                bool whole) {
  return SingleGroupSearch(problem, evaluator, incumbent_ns, options).run(whole);
}

}  // namespace espalier::search
