// SPDX-License-Identifier: Apache-2.0
// Which device takes which place of a configuration: what forms each data-parallel group, and in what order stages
// follow each other, on links that are unequal. The degrees and the layers stay as they are.
//
// Judged by what of the step depends on the places alone:
//     m · 2 · max over neighbouring stages of message(i, i+1)  +  2 · Σ latency(i, i+1)  +  max over stages of
//     reduction(i)
// with the links and levels that the costs of such stages are made of (cost/scattered_stages.h): m micro-batches cross
// every border twice, each link once a micro-batch; the pipeline fills and drains once; the slowest reduction ends the
// step. Starts are the orders of ranks that engines have, over devices as the cluster numbers them and over each order
// of its sites (of up to kPermuted groups); from the best of them single exchanges of two devices are taken while they
// lower the figure, in the order of places. What is found, and the best starts, and the places of `plan`, are
// simulated; the fastest is taken. Deterministic; a local minimum, not a proof.
#pragma once

#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

inline constexpr std::size_t kPermuted = 5;  ///< groups whose orders are all tried

/// `plan`, which has one pipeline of stages of equal numbers of devices and uses every device, with its devices in the
/// best order found.
Plan placed(const Job& job, const EngineModel& engine, Plan plan);

}  // namespace espalier::planner
