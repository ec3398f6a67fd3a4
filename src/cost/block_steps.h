// SPDX-License-Identifier: Apache-2.0
// A block whose operators are partitioned, step by step: the steps of its operators (partition_cost.h) and the
// redistributions between them, in the order in which a device runs them. Internal to cost/; callers ask priced_block
// or layer_steps.
#pragma once

#include <vector>

#include "cost/partitioned_block.h"

namespace espalier::cost {

/// `block` has its graph and its cost; `sequences` as block_cost.
LayerSteps block_steps(PartitionCosts& costs, const PricedBlock& block, const LayerKind& kind,
                       const std::vector<partition::PartitionSequence>& sequences);

}  // namespace espalier::cost
