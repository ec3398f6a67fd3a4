// SPDX-License-Identifier: Apache-2.0
#include "check/own_cluster.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "check/arithmetic.h"
#include "check/listed.h"
#include "check/view.h"

namespace espalier::check {
namespace {

/// Holds the devices of the plan; last < first if they lie outside the cluster, or a range is empty.
struct DeviceExtent {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1, devices = 0;
};

DeviceExtent run_of(const Pipeline& pipeline, std::int64_t all) {
  DeviceExtent run;
  for (const Stage& stage : pipeline.stages)
    for (const DeviceRange& range : stage.devices) {
      if (range.first < 0 || range.count < 1 || range.stride < 1 || range.count > all) return {};
      const std::int64_t last = saturating_sum(range.first, saturating_multiply(range.count - 1, range.stride));
      if (last >= all) return {};
      run.first = std::min(run.first, range.first);
      run.last = std::max(run.last, last);
      run.devices += range.count;
    }
  return run;
}

/// Returns whether the stages and their strategies are readable, and all have one order.
bool readable(const Pipeline& pipeline) {
  if (pipeline.schedule.stages < 1 || pipeline.stages.size() != static_cast<std::size_t>(pipeline.schedule.stages)) return false;
  std::optional<RankOrder> order;
  for (const Stage& stage : pipeline.stages) {
    if (stage.chunks.empty() || !stage.samples_per_replica.empty() || !stage.state_shares.empty()) return false;
    for (const Chunk& chunk : stage.chunks) {
      if (chunk.ranges.empty()) return false;
      for (const LayerRange& range : chunk.ranges) {
        const Strategy& s = range.strategy;
        if (s.tp < 1 || s.cp < 1 || s.dp < 1 || order.value_or(s.order) != s.order) return false;
        order = s.order;
      }
    }
  }
  return true;
}

/// Returns whether all layers share one strategy apart from recomputation.
bool all_alike(const Pipeline& pipeline) {
  const Strategy& first = pipeline.stages.front().chunks.front().ranges.front().strategy;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) {
        Strategy own = range.strategy;
        own.recompute = first.recompute;
        if (own != first) return false;
      }
  return true;
}

/// Returns whether a device begins domains as the first of its group does.
bool begins_domains(const Cluster& cluster, const NodeGroup& group, std::int64_t offset) {
  std::vector<std::int64_t> spans = {group.devices_per_node};
  std::vector<FabricLevel> levels = group.intra;
  levels.insert(levels.end(), group.inter.begin(), group.inter.end());
  if (cluster.groups.size() == 1) levels.insert(levels.end(), cluster.inter.begin(), cluster.inter.end());
  for (std::size_t k = 0; k + 1 < levels.size(); ++k) spans.push_back(levels[k].span);
  return std::all_of(spans.begin(), spans.end(),
                     [&](std::int64_t span) { return offset % std::max<std::int64_t>(1, span) == 0; });
}

Plan moved(const Plan& plan, std::int64_t by) {
  Plan out = plan;
  for (Pipeline& pipeline : out.pipelines)
    for (Stage& stage : pipeline.stages)
      for (DeviceRange& range : stage.devices) range.first -= by;
  return out;
}

/// Returns the group's nodes that hold `devices` devices, as a cluster.
Cluster nodes_alone(const Cluster& cluster, std::size_t group, std::int64_t devices) {
  Cluster out;
  out.name = cluster.name;
  out.memory_limit = cluster.memory_limit;
  NodeGroup own = cluster.groups[group];
  out.inter = cluster.groups.size() == 1 ? cluster.inter : own.inter;
  if (cluster.groups.size() > 1) own.inter.clear();
  own.speed.clear();
  own.nodes = std::max<std::int64_t>(1, devices / own.devices_per_node);
  own.devices_per_node = std::min(own.devices_per_node, devices);
  out.groups = {std::move(own)};
  return out;
}

}  // namespace

std::optional<OwnCluster> own_cluster(const Plan& plan, const Cluster& cluster) {
  if (plan.pipelines.size() != 1) return std::nullopt;
  const Pipeline& pipeline = plan.only_pipeline();
  if (!readable(pipeline) || (cluster.groups.size() > 1 && !all_alike(pipeline))) return std::nullopt;
  const std::int64_t all = device_count(cluster);
  const DeviceExtent run = run_of(pipeline, all);
  if (run.devices == 0 || run.last - run.first + 1 != run.devices) return std::nullopt;
  if (cluster.groups.size() == 1 && run.devices == all) return std::nullopt;
  const std::size_t at = group_of_device(cluster, run.first);
  const NodeGroup& group = cluster.groups[at];
  if (group_of_device(cluster, run.last) != at) return std::nullopt;
  if (run.devices > group.devices_per_node && run.devices % group.devices_per_node != 0) return std::nullopt;
  if (!begins_domains(cluster, group, run.first - first_device_of(cluster, at))) return std::nullopt;
  for (const DeviceSpeed& unlike : group.speed)
    if (unlike.device >= run.first && unlike.device <= run.last) return std::nullopt;
  OwnCluster own{nodes_alone(cluster, at, run.devices), moved(plan, run.first), run.first};
  if (listed_devices(own.plan.only_pipeline()) != nullptr) return std::nullopt;
  return own;
}

Program counted_from(const Program& program, std::int64_t first) {
  Program out = program;
  for (RankClass& rank : out.ranks)
    for (DeviceRange& range : rank.devices) range.first -= first;
  return out;
}

}  // namespace espalier::check
