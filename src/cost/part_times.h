// SPDX-License-Identifier: Apache-2.0
// Divides the nanoseconds of a collective at the end or the beginning of a step among its parts (Program::parts).
// Each part gets a share in proportion to what the closed form takes for its message alone. Shares are rounded so
// that they add up to the collective's time in Costs. That time differs from the closed form where a share of the
// collective is waited for elsewhere (price.cpp); all parts bear that share alike.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "plan/program.h"

namespace espalier::cost {

/// Returns the times by part of the collective, in order. `program` belongs to a plan, priced in `context`.
std::vector<std::int64_t> part_times(const CostContext& context, const Program& program, const Costs& costs, CollectiveId id);

}  // namespace espalier::cost
