// SPDX-License-Identifier: Apache-2.0
// What planners for unlike devices begin with: the same degrees in every stage, each stage on devices of one kind, and
// layers in proportion to what the devices of the stage compute.
//
//     rate of a stage       r_i = peak of its kind at the precision of the training · the least speed of its devices
//                           (stages have equally many)
//     boundary behind it    the layer at which the running sum of forward FLOPs is nearest to Σ FLOPs · (r_0 + … + r_i)
//                           / Σ r
//
// The family: tp, a power of two up to the smallest node (with sequence parallelism); any dp with which every group is
// whole stages; micro-batches of 1 to 8 samples; the least recomputation that fits; ZeRO-1; 1F1B; the faster groups in
// front, or behind. Memory is not looked at when the layers are dealt out: that is what such a split lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// First layer of each of the stages that have these rates; every stage has a layer. Needs 1 ≤ rates ≤ weights, rates
/// above 0.
std::vector<std::int32_t> split_by_rates(const std::vector<double>& weights, const std::vector<double>& rates);

/// Whether the job's search part admits the stages of a plan of one pipeline.
bool admitted(const SearchSpace& space, const Plan& plan);

/// Plans that differ in recomputation alone, less of it first.
using RecomputeLadder = std::vector<Plan>;
/// The family, as far as the job's search part admits it. `equal`: the job on as many devices of the slowest kind,
/// whose rules the degrees keep. Empty: no degrees keep them.
std::vector<RecomputeLadder> compute_splits(const Job& job, const Job& equal, const EngineModel& engine);

}  // namespace espalier::planner
