// SPDX-License-Identifier: Apache-2.0
#include "cost/fabric.h"

#include <optional>

#include "plan/device_block.h"
#include "plan/engine.h"

namespace espalier::cost {
namespace {

/// Returns the fabric as communication of one kind sees it: `time_scale` times slower than the fabric model.
std::vector<FabricLevel> scaled(std::vector<FabricLevel> levels, double time_scale) {
  for (FabricLevel& level : levels) {
    level.efficiency /= time_scale;
    level.latency = Seconds(level.latency.count() * time_scale);
  }
  return levels;
}

}  // namespace

Fabric::Fabric(const Cluster& cluster, const EngineModel& engine)
    : levels(cluster.levels()),
      tensor_levels(scaled(levels, engine.coefficients.tensor_communication)),
      data_levels(scaled(levels, engine.coefficients.data_communication)),
      node_levels(static_cast<int>(cluster.groups.front().intra.size())) {}

void Fabric::place(const Plan& plan) {
  listed = nullptr;
  const Pipeline& pipeline = plan.only_pipeline();
  if (const std::optional<std::int64_t> first = first_in_order(pipeline)) {
    // A plan that begins with the first device of a domain of every level has groups that lie as they do from device
    // 0 on.
    bool alike = node_levels == 0 || *first % levels[static_cast<std::size_t>(node_levels) - 1].span == 0;
    for (std::size_t k = 0; k + 1 < levels.size(); ++k) alike = alike && *first % levels[k].span == 0;
    if (alike) return;
  }
  listed = std::make_shared<const StageDevices>(stage_devices(pipeline));
}

}  // namespace espalier::cost
