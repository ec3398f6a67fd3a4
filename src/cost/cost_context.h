// SPDX-License-Identifier: Apache-2.0
// The parts from which costs are computed, together. Code that drives a whole program (price.h, layer_cost.h) takes
// all of them; a function that needs one part takes that part alone. All devices of a cluster are of one kind; a
// cluster of several kinds has a DeviceCost for each.
#pragma once

#include <memory>

#include "cost/device_cost.h"
#include "cost/fabric.h"
#include "cost/workload.h"

namespace espalier::cost {

class PartitionMemo;

/// Holds the inputs that do not change during a search; immutable, shared by threads.
struct CostContext {
  Workload workload;
  DeviceCost device;
  Fabric fabric;
  const EngineModel* engine = nullptr;  ///< outlives this value
  double state_share = 1.0;             ///< sharded states, relative to an equal part (Stage::state_shares)
  /// Holds the blocks priced under operator partitions (partitioned_block.h); copies of the context share it.
  std::shared_ptr<PartitionMemo> partitions;

  CostContext(const Model& m, const Cluster& cluster, const Training& t, const EngineModel& e);
};

}  // namespace espalier::cost
