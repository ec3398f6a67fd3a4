// SPDX-License-Identifier: Apache-2.0
// The steps of a block whose operators are partitioned: the steps of its operators (partition_cost.h) and the
// redistributions between them, in the order in which a device runs them. Internal to cost/; callers use priced_block
// or layer_steps.
#pragma once

#include <vector>

#include "cost/partitioned_block.h"

namespace espalier::cost {

/// Returns the steps of `block`, which holds its graph and its cost; `sequences` are those of block_cost.
LayerSteps block_steps(PartitionCosts& costs, const PricedBlock& block, const LayerKind& kind,
                       const std::vector<partition::PartitionSequence>& sequences);

}  // namespace espalier::cost
