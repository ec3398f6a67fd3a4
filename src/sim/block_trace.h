// SPDX-License-Identifier: Apache-2.0
// The timeline of one partitioned block: what one device of the group runs, operator after operator, forward and then
// backward, on the tracks `compute` and `data`. Its steps are the cost model's (cost/partitioned_block.h), and so is
// their time.
#pragma once

#include <cstdint>
#include <string>

#include "cost/layer_cost.h"
#include "espalier/result.h"

namespace espalier::sim {

/// Chrome trace-event JSON. `samples`, `devices`, `partition`: as cost::partitioned_block.
Result<std::string> block_trace(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                std::int32_t devices, const BlockPartition& partition);

}  // namespace espalier::sim
