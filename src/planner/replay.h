// SPDX-License-Identifier: Apache-2.0
// A step whose durations were measured, replayed: no model of layers, devices or networks has a say in it.
//
// Each replica is a pipeline of its own whose passes take what was measured of them; its program is simulated under the
// schedule. Gradients are clipped by the norm over all ranks, so that nobody updates before the last backward pass of
// the slowest replica:
//     step = max over replicas (end of the last backward pass) + update
// Messages between stages take nothing here: what a stage waits for them was not measured apart from its passes.
// Collectives at the end of the step that were measured with waiting are in that maximum already and must not be in
// `update`.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::planner {

struct MeasuredPass {
  std::int64_t forward_ns = 0, backward_ns = 0;
};
struct ReplayedStep {
  Schedule schedule;                              ///< one chunk a stage; `microbatches` of each replica
  std::vector<std::vector<MeasuredPass>> passes;  ///< by stage, then by replica; as many replicas in every stage
  std::int64_t update_ns = 0;
};

/// Nanoseconds of the step. bad_input where stages have unlike numbers of replicas, or the schedule does not fit them.
Result<std::int64_t> replay(const ReplayedStep& step);

}  // namespace espalier::planner
