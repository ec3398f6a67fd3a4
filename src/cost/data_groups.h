// SPDX-License-Identifier: Apache-2.0
// The groups in which a configuration shares, gathers and reduces weights and gradients. With ZeRO the ranks with the same dense weights fall
// into shard groups and, where a shard group is smaller than all of them (hybrid sharding), replicas of one shard. Experts shard over the
// part of their replicas that the dense shard group covers.
#pragma once

#include <cstdint>

#include "cost/device_cost.h"
#include "cost/fabric.h"
#include "cost/overlap.h"
#include "cost/placement.h"
#include "espalier/plan.h"

namespace espalier::cost {

struct DataGroups {
  Group shard, replica, expert_shard, expert_replica;
  bool sharded;
  Slowdown slowdown;  ///< of compute beside their collectives: of the shard or the replica group, whichever moves more
};

DataGroups data_groups(const Fabric& fabric, const DeviceCost& device, const Strategy& s, std::int32_t stages);

}  // namespace espalier::cost
