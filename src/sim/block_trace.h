// SPDX-License-Identifier: Apache-2.0
// Writes the timeline of one partitioned block. It shows what one device of the group runs, operator after operator,
// forward and then backward, on the tracks `compute` and `data`. Its steps and their times are those of the cost
// model (cost/partitioned_block.h).
#pragma once

#include <cstdint>
#include <string>

#include "cost/layer_cost.h"
#include "espalier/result.h"

namespace espalier::sim {

/// Returns Chrome trace-event JSON. `samples`, `devices` and `partition` are those of cost::partitioned_block.
Result<std::string> block_trace(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                std::int32_t devices, const BlockPartition& partition);

}  // namespace espalier::sim
