// SPDX-License-Identifier: Apache-2.0
// The parts from which costs are computed, together: what drives a whole program (price.h, layer_cost.h) takes this,
// and a function that needs one of them takes that part alone. All devices of a cluster are of one kind; a cluster of
// several kinds has a DeviceCost for each.
#pragma once

#include <memory>

#include "cost/device_cost.h"
#include "cost/fabric.h"
#include "cost/workload.h"

namespace espalier::cost {

class PartitionMemo;

/// Inputs that do not change during a search; immutable, shared by threads.
struct CostContext {
  Workload workload;
  DeviceCost device;
  Fabric fabric;
  const EngineModel* engine = nullptr;        ///< lives longer than this value
  double state_share = 1.0;                   ///< of what ZeRO shards, relative to an equal part (Stage::state_shares)
  std::shared_ptr<PartitionMemo> partitions;  ///< blocks priced under operator partitions (partitioned_block.h); shared
                                              ///< by copies

  CostContext(const Model& m, const Cluster& cluster, const Training& t, const EngineModel& e);
};

}  // namespace espalier::cost
