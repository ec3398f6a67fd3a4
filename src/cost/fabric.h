// SPDX-License-Identifier: Apache-2.0
// What joins the devices, as communication of each kind sees it. The levels are nested: level 0 joins the devices that
// are nearest to each other, and each level has bandwidth, latency and efficiency (espalier/cluster.h). Groups of ranks
// are placed on them by placement.h and priced by collective.h. An engine whose collectives were measured to take
// longer than the fabric model says sees slower levels (data/engines.yaml: coefficients.tensor_communication and
// coefficients.data_communication, both times relative to the model's).
#pragma once

#include <memory>
#include <vector>

#include "cost/placement.h"
#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/listed_devices.h"

namespace espalier::cost {

struct Fabric {
  std::vector<FabricLevel> levels;         ///< as the fabric model has them: messages between stages
  std::vector<FabricLevel> tensor_levels;  ///< as the engine's TP, CP and EP collectives see them
  std::vector<FabricLevel> data_levels;    ///< as its data-parallel collectives see them
  int node_levels = 0;                     ///< how many of them lie inside a node

  /// Of a plan whose stages list devices in an order of their own; null: ranks lie as RankOrder says.
  std::shared_ptr<const StageDevices> listed;

  Fabric(const Cluster& cluster, const EngineModel& engine);
  /// The same for a plan as its stages list their devices (unpriced_placement has none of its groups refused).
  void place(const Plan& plan);
  /// Where groups lie; all three views of the levels have the same domains.
  [[nodiscard]] Placing placing() const { return {levels, listed.get()}; }
};

}  // namespace espalier::cost
