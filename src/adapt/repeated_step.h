// SPDX-License-Identifier: Apache-2.0
// Repeats a plan's step on a network with token buckets. Each step starts with the tokens that the previous one left.
//
// A step is the program priced at full rates, run by the flow network (sim/flow_executor.h). Tokens at its end are a
// function of tokens at its start:
//     no bucket runs empty and none holds less after    All steps from this one on are like it.
//     two steps are alike         They take the same time and change the tokens equally. So do the next n steps in
//                                 which no other bucket runs empty, and tokens change by n times as much. If no
//                                 bucket falls, all later steps are alike.
//     tokens as at an earlier start    The steps repeat: a step of the long run is the mean of those since then.
// In the long run a link passes no more than flows in, B ≤ sustained · T for B bytes a step of T, however large the
// bucket. A single burst of B with a pause p takes T = p + max(B / full, B / sustained − min(p, bucket / sustained)).
#pragma once

#include <cstdint>

#include "espalier/long_run.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::adapt {

/// Repeats the step. `job` has the full rates (at_bucket_rates(…, 1)), `cluster` is the same one with its buckets.
Result<LongRun> repeated_step(const Job& job, const EngineModel& engine, const Cluster& cluster, const Plan& plan);

}  // namespace espalier::adapt
