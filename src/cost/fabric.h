// SPDX-License-Identifier: Apache-2.0
// The network between the devices, as communication of each kind sees it. The levels are nested: level 0 joins the
// devices that are nearest to each other, and each level has bandwidth, latency and efficiency (espalier/cluster.h).
// Groups of ranks are placed on them by placement.h and priced by collective.h. An engine whose collectives were
// measured to take longer than the fabric model predicts sees slower levels. Its times relative to the model's are
// coefficients.tensor_communication and coefficients.data_communication of data/engines.yaml.
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
  std::vector<FabricLevel> levels;         ///< levels of the fabric model, for messages between stages
  std::vector<FabricLevel> tensor_levels;  ///< levels for the engine's TP, CP and EP collectives
  std::vector<FabricLevel> data_levels;    ///< levels for its data-parallel collectives
  int node_levels = 0;                     ///< number of levels inside a node

  /// Holds the devices of a plan whose stages list them in an order of their own; null: ranks lie as RankOrder says.
  std::shared_ptr<const StageDevices> listed;

  Fabric(const Cluster& cluster, const EngineModel& engine);
  /// Places a plan on the devices that its stages list; unpriced_placement must reject none of its groups.
  void place(const Plan& plan);
  /// Returns where groups lie; all three views of the levels have the same domains.
  [[nodiscard]] Placing placing() const { return {levels, listed.get()}; }
};

}  // namespace espalier::cost
