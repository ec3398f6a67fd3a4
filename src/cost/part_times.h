// SPDX-License-Identifier: Apache-2.0
// How the nanoseconds of a collective at the end or the beginning of a step fall to its parts (Program::parts): in
// proportion to what the closed form takes for each message alone, rounded so that they add up to the collective's time
// in Costs. They differ where a share of the collective is waited for elsewhere (price.cpp), which all parts bear
// alike.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "cost/layer_cost.h"
#include "plan/program.h"

namespace espalier::cost {

/// By part of the collective, in order. `program` of a plan, priced in `context`.
std::vector<std::int64_t> part_times(const CostContext& context, const Program& program, const Costs& costs, CollectiveId id);

}  // namespace espalier::cost
