// SPDX-License-Identifier: Apache-2.0
// Tests: a plan of one pipeline priced under one context, as price(ClusterCosts, …) prices it where all stages share
// that context.
#pragma once

#include "cost/price.h"

namespace espalier::cost {

/// `program` = lower(plan, …) receives the bytes that it moves.
inline Costs price(const CostContext& c, const Plan& plan, Program& program) {
  Costs costs;
  price(c, program.structure(), chunk_ranges(plan.only_pipeline()), plan.samples_per_microbatch(), costs, &program);
  return costs;
}

}  // namespace espalier::cost
