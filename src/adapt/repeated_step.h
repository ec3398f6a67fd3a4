// SPDX-License-Identifier: Apache-2.0
// A plan's step again and again on a network with token buckets, each step with the tokens that the one before has
// left.
//
// A step is the program priced at full rates, run by the flow network (sim/flow_executor.h). Tokens at its end are a
// function of tokens at its start:
//     no bucket runs empty and none holds less after    all steps from this one on are like it
//     two steps are alike         in time and in what the tokens change by: so are the next n in which no other bucket
//                                 runs empty, and tokens change by
//                                 n times as much; all steps where none falls
//     tokens as at an earlier start    it comes round: a step of the long run is the mean of those since
// In the long run a link passes no more than comes in, B ≤ sustained · T for B bytes a step of T, however large the
// bucket; a single burst of B with a pause p takes T = p + max(B / full, B / sustained − min(p, bucket / sustained)).
#pragma once

#include <cstdint>

#include "espalier/long_run.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::adapt {

/// `job` is that of full rates (at_bucket_rates(…, 1)), `cluster` the same with its buckets.
Result<LongRun> repeated_step(const Job& job, const EngineModel& engine, const Cluster& cluster, const Plan& plan);

}  // namespace espalier::adapt
