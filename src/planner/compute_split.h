// SPDX-License-Identifier: Apache-2.0
// Builds the usual starting point of planners for heterogeneous devices. Every stage has the same degrees and devices
// of one kind, and layers are split in proportion to what the devices of the stage compute.
//
//     rate of a stage     r_i = peak of its kind at the training precision · the lowest speed of its devices
//                         (all stages have the same number of devices)
//
//     end of a stage      the layer at which the running sum of forward FLOPs is nearest to
//                         Σ FLOPs · (r_0 + … + r_i) / Σ r.
//
// The family varies tp, a power of two up to the smallest node (with sequence parallelism), and dp, any degree with
// which every group is whole stages. Micro-batches have 1 to 8 samples. The faster groups come first or last. All
// members use ZeRO-1, 1F1B and the least recomputation that fits. The split ignores memory, which is its weakness.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Returns the first layer of each stage for these rates. Every stage gets a layer. Requires 1 ≤ rates ≤ weights, and
/// rates above 0.
std::vector<std::int32_t> split_by_rates(const std::vector<double>& weights, const std::vector<double>& rates);

/// Returns whether the job's search part admits the stages of a plan with one pipeline.
bool admitted(const SearchSpace& space, const Plan& plan);

/// Holds plans that differ only in recomputation, the least of it first.
using RecomputeLadder = std::vector<Plan>;
/// Returns the members of the family that the job's search part admits; empty if no degrees satisfy the rules.
/// `equal` is the job on as many devices of the slowest kind; the degrees must satisfy its rules.
std::vector<RecomputeLadder> compute_splits(const Job& job, const Job& equal, const EngineModel& engine);

}  // namespace espalier::planner
