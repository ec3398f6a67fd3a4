// SPDX-License-Identifier: Apache-2.0
#include "cost/fabric.h"

namespace espalier::cost {
namespace {

/// The fabric as communication of one kind sees it: `time_scale` times slower than the fabric model.
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
  listed = devices_in_order(plan) ? nullptr : std::make_shared<const StageDevices>(stage_devices(plan.only_pipeline()));
}

}  // namespace espalier::cost
