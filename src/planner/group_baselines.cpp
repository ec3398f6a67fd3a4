// SPDX-License-Identifier: Apache-2.0
#include "planner/group_baselines.h"

#include <algorithm>

#include "base/format.h"
#include "planner/alternatives.h"
#include "planner/memory_margin.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/search.h"

namespace espalier::planner {
namespace {

/// The job on other devices, with the memory margin that its own have.
Job on_cluster(const Job& job, Cluster cluster) {
  Job out = job;
  out.search.kind = SpaceKind::uniform;
  out.search.devices = DeviceChoice::equal;
  out.search.memory_margin = memory_margin_of(job).share;
  out.cluster = std::move(cluster);
  return out;
}

/// As many devices as the cluster has, all of the kind that is slowest at the precision of the training, with the smallest memory of any.
Cluster all_as_slowest(const Job& job) {
  const auto& groups = job.cluster.groups;
  const auto pace = [&](std::size_t g) {
    const NodeGroup& group = groups[g];
    return group.device.peak_of(job.training.precision).count() *
           job.cluster.slowest_of(job.cluster.first_device(g), group.nodes * group.devices_per_node);
  };
  std::size_t slowest = 0;
  for (std::size_t g = 1; g < groups.size(); ++g)
    if (pace(g) < pace(slowest)) slowest = g;
  Cluster out = search::group_alone(job.cluster, slowest);
  std::int64_t usable = job.cluster.usable_memory(0).count();
  for (std::size_t g = 1; g < groups.size(); ++g) usable = std::min(usable, job.cluster.usable_memory(g).count());
  out.memory_limit = Bytes(usable);
  NodeGroup& nodes = out.groups.front();
  nodes.nodes = job.cluster.devices() / nodes.devices_per_node;
  FabricLevel join = job.cluster.inter.back();
  join.span = nodes.nodes * nodes.devices_per_node;
  out.inter = {join};
  return out;
}

std::optional<search::Candidate> best_of(const GroupBaseline& baseline, const EngineModel& engine, int threads,
                                         const std::function<bool()>& interrupted) {
  const Job room = with_memory_room(baseline.job);
  search::Options how;
  how.threads = threads;
  how.interrupted = interrupted;
  SimulatedEvaluator evaluator(threads);
  return search::branch_and_bound({&room.model, &room.cluster, room.training, &engine, room.search}, evaluator, how).best;
}

}  // namespace

std::vector<GroupBaseline> group_baselines(const Job& job) {
  std::vector<GroupBaseline> out;
  const auto& groups = job.cluster.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string pace = groups[g].speed.empty() ? "" : ", all at the pace of the slowest";
    GroupBaseline alone{base::cat(groups[g].name, " alone (", std::to_string(groups[g].nodes * groups[g].devices_per_node), " × ",
                                  groups[g].device.name, pace, ")"),
                        on_cluster(job, search::group_alone(job.cluster, g))};
    alone.job.search = search::space_alone(alone.job.search);
    out.push_back(std::move(alone));
  }
  if (groups.size() == 1) return out;
  Cluster equal = all_as_slowest(job);
  const NodeGroup& nodes = equal.groups.front();
  if (nodes.nodes * nodes.devices_per_node == job.cluster.devices())
    out.push_back({"equal split, at the pace of " + nodes.device.name, on_cluster(job, std::move(equal))});
  return out;
}

std::vector<Alternative> group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                            const search::EachGroupOutcome* alone, int threads,
                                            const std::function<bool()>& interrupted) {
  std::vector<Alternative> out;
  for (const GroupBaseline& baseline : group_baselines(job)) {
    const bool known = alone != nullptr && out.size() < alone->groups.size();
    Alternative none;
    none.label = baseline.label;
    none.baseline = true;
    const auto best = known ? alone->groups[out.size()].best : best_of(baseline, engine, threads, interrupted);
    std::optional<Alternative> found;
    if (best)
      found = alternative_of(baseline.job, engine, answer,
                             document_of(baseline.job, engine, best->configuration.strategy, best->configuration.schedule),
                             baseline.label);
    if (!found) none.lost_to = "no configuration fits";
    out.push_back(found ? std::move(*found) : std::move(none));
    out.back().configuration.reset();  // it belongs to another cluster
  }
  return out;
}

}  // namespace espalier::planner
