// SPDX-License-Identifier: Apache-2.0
#include "planner/group_baselines.h"

#include <algorithm>

#include "planner/alternatives.h"
#include "planner/memory_margin.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/search.h"

namespace espalier::planner {
namespace {

Job on_cluster(const Job& job, Cluster cluster) {
  Job out = job;
  out.search.kind = SpaceKind::uniform;
  out.search.devices = DeviceChoice::equal;
  cluster.links.clear();
  cluster.egress.clear();
  cluster.capacity.clear();
  cluster.token_buckets.clear();
  cluster.events.clear();
  out.cluster = std::move(cluster);
  return out;
}

Cluster only_group(const Cluster& cluster, std::size_t group) {
  Cluster out = cluster;
  out.groups = {cluster.groups[group]};
  out.inter = cluster.groups[group].inter;
  out.groups.front().inter.clear();
  out.groups.front().speed.clear();
  return out;
}

/// As many devices as the cluster has, all of the kind that is slowest at the precision of the training, with the smallest memory of any.
Cluster all_as_slowest(const Job& job) {
  const auto peak = [&](const NodeGroup& group) { return group.device.peak_of(job.training.precision).count(); };
  const auto& groups = job.cluster.groups;
  const auto slowest =
      std::min_element(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return peak(a) < peak(b); });
  Cluster out = only_group(job.cluster, static_cast<std::size_t>(slowest - groups.begin()));
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
  for (std::size_t g = 0; g < groups.size(); ++g)
    out.push_back({groups[g].name + " alone (" + std::to_string(groups[g].nodes * groups[g].devices_per_node) + " × " +
                       groups[g].device.name + ")",
                   on_cluster(job, only_group(job.cluster, g))});
  Cluster equal = all_as_slowest(job);
  const NodeGroup& nodes = equal.groups.front();
  if (nodes.nodes * nodes.devices_per_node == job.cluster.devices())
    out.push_back({"equal split, at the pace of " + nodes.device.name, on_cluster(job, std::move(equal))});
  return out;
}

std::vector<Alternative> group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& answer, int threads,
                                            const std::function<bool()>& interrupted) {
  std::vector<Alternative> out;
  for (const GroupBaseline& baseline : group_baselines(job)) {
    Alternative none;
    none.label = baseline.label;
    none.baseline = true;
    const auto best = best_of(baseline, engine, threads, interrupted);
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
