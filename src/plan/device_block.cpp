// SPDX-License-Identifier: Apache-2.0
#include "plan/device_block.h"

#include <algorithm>
#include <vector>

#include "plan/listed_devices.h"

namespace espalier {
namespace {

/// Returns the fabric levels of a group's devices, innermost first.
std::vector<FabricLevel> levels_of(const Cluster& cluster, std::size_t group) {
  const NodeGroup& at = cluster.groups[group];
  std::vector<FabricLevel> levels = at.intra;
  levels.insert(levels.end(), at.inter.begin(), at.inter.end());
  if (cluster.homogeneous()) levels.insert(levels.end(), cluster.inter.begin(), cluster.inter.end());
  return levels;
}

/// Returns whether a device `offset` devices behind the first of its group begins the same domains as the first.
bool begins_domains(const Cluster& cluster, std::size_t group, std::int64_t offset) {
  if (offset % cluster.groups[group].devices_per_node != 0) return false;
  const std::vector<FabricLevel> levels = levels_of(cluster, group);
  for (std::size_t k = 0; k + 1 < levels.size(); ++k)
    if (offset % levels[k].span != 0) return false;
  return true;
}

bool one_order(const Pipeline& pipeline) {
  const RankOrder order = pipeline.strategy().order;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        if (range.strategy.order != order) return false;
  return true;
}

/// Returns whether all layers of a stage are spread over this many devices.
bool spread_over(const Stage& stage, std::int64_t devices) {
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges)
      if (range.strategy.devices() != devices) return false;
  return true;
}

/// Returns whether all layers are spread and sharded alike. If layouts of stages differ, the busier end sets the price
/// of messages between groups (cost/cluster_costs.h). A plan inside one group must have the same price.
bool one_layout(const Pipeline& pipeline) {
  Strategy first = pipeline.strategy();
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) {
        first.recompute = range.strategy.recompute;
        if (!(range.strategy == first)) return false;
      }
  return true;
}

}  // namespace

std::optional<DeviceBlock> device_block(const Pipeline& pipeline, const Cluster& cluster) {
  const std::optional<std::int64_t> first = first_in_order(pipeline);
  if (!first || !one_order(pipeline)) return std::nullopt;
  if (!cluster.homogeneous() && !one_layout(pipeline)) return std::nullopt;
  std::int64_t count = 0;
  for (const Stage& stage : pipeline.stages) {
    const std::int64_t held = device_count(stage);
    if (uneven_replicas(stage) || !spread_over(stage, held)) return std::nullopt;
    count += held;
  }
  if (*first + count > cluster.devices()) return std::nullopt;
  const std::size_t group = cluster.group_of(*first);
  if (group != cluster.group_of(*first + count - 1)) return std::nullopt;
  if (!begins_domains(cluster, group, *first - cluster.first_device(group))) return std::nullopt;
  const std::vector<DeviceSpeed>& unlike = cluster.groups[group].speed;
  const bool alike = std::none_of(unlike.begin(), unlike.end(), [&](const DeviceSpeed& device) {
    return device.device >= *first && device.device < *first + count;
  });
  return alike ? std::optional(DeviceBlock{group, *first}) : std::nullopt;
}

}  // namespace espalier
