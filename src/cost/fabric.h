// SPDX-License-Identifier: Apache-2.0
// What joins the devices, as communication of each kind sees it. The levels are nested: level 0 joins the devices that are nearest to each
// other, and each level has bandwidth, latency and efficiency (espalier/cluster.h). Groups of ranks are placed on them by placement.h and
// priced by collective.h. An engine whose collectives were measured to take longer than the fabric model says sees slower levels
// (data/engines.yaml: coefficients.tensor_communication and coefficients.data_communication, both times relative to the model's).
#pragma once

#include <vector>

#include "espalier/cluster.h"
#include "plan/engine.h"

namespace espalier::cost {

struct Fabric {
  std::vector<FabricLevel> levels;         ///< as the fabric model has them: messages between stages
  std::vector<FabricLevel> tensor_levels;  ///< as the engine's TP, CP and EP collectives see them
  std::vector<FabricLevel> data_levels;    ///< as its data-parallel collectives see them
  int node_levels = 0;                     ///< how many of them lie inside a node

  Fabric(const Cluster& cluster, const EngineModel& engine);
};

}  // namespace espalier::cost
