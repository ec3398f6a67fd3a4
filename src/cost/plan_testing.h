// SPDX-License-Identifier: Apache-2.0
// For tests: prices a plan of one pipeline under one context, as price(ClusterCosts, …) does where all stages share
// that context.
#pragma once

#include "cost/price.h"

namespace espalier::cost {

/// Returns the costs of `plan`. `program` = lower(plan, …) receives the bytes that it moves.
inline Costs price(const CostContext& c, const Plan& plan, Program& program) {
  Costs costs;
  const Pipeline& pipeline = plan.only_pipeline();
  const auto chunks = chunk_ranges(pipeline);
  price(c, program.structure(), ranges_of(c, pipeline.schedule.stages, chunks, pipeline.samples_per_microbatch()).chunks, costs,
        &program);
  return costs;
}

}  // namespace espalier::cost
