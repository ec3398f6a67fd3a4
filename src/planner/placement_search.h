// SPDX-License-Identifier: Apache-2.0
// Searches the placement of a configuration: which devices form each data-parallel group, and in what order stages
// follow each other, on links that are unequal. The degrees and the layers stay as they are.
//
// A placement is judged by the part of the step that depends on the places alone.
//
//     m · 2 · max over neighbouring stages of message(i, i+1)  +  2 · Σ latency(i, i+1)
//                                                              +  max over stages of reduction(i).
//
// Links and levels are those of the cost model of such stages (cost/scattered_stages.h). The m micro-batches cross
// every border twice, each link once per micro-batch. The pipeline fills and drains once. The slowest reduction
// ends the step.
//
// The starts are the rank orders of engines, over devices as the cluster numbers them and over each order of its
// sites (of up to kPermuted groups). From the best start, the search swaps pairs of devices as long as this lowers
// the figure, in the order of places. The result, the best starts and the placement of `plan` are simulated, and the
// fastest is taken. The search is deterministic; it finds a local minimum and proves nothing.
#pragma once

#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

inline constexpr std::size_t kPermuted = 5;  ///< groups whose orders are all tried

/// Returns `plan` with its devices in the best order found. It must have one pipeline whose stages have equal numbers
/// of devices, and use every device.
Plan placed(const Job& job, const EngineModel& engine, Plan plan);

}  // namespace espalier::planner
