// SPDX-License-Identifier: Apache-2.0
// The groups in which a configuration shares, gathers and reduces weights and gradients. With ZeRO the ranks with the
// same dense weights fall into shard groups. Where a shard group is smaller than all of these ranks (hybrid
// sharding), there are replicas of one shard as well. Experts shard over the part of their replicas that the dense
// shard group covers.
#pragma once

#include <cstdint>

#include "cost/fabric.h"
#include "cost/placement.h"
#include "espalier/plan.h"

namespace espalier::cost {

struct DataGroups {
  Group shard, replica, expert_shard, expert_replica;
  bool sharded;
  double gathers_again = 1;  ///< share of the parameters that a backward pass gathers again (zero_buffers.h)
};

DataGroups data_groups(const Fabric& fabric, const Strategy& s, std::int32_t stages);

}  // namespace espalier::cost
