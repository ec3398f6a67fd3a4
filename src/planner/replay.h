// SPDX-License-Identifier: Apache-2.0
// Replays a step from measured durations, without any model of layers, devices or networks.
//
// Each replica is a pipeline whose passes take their measured times. Its program is simulated under the
// schedule. Gradients are clipped by the norm over all ranks. So no rank updates before the last backward pass
// of the slowest replica:
//
//     step = max over replicas (end of the last backward pass) + update.
//
// Messages between stages take no time here: the wait for them was not measured apart from the passes. If collectives
// at the end of the step were measured with waiting, that maximum includes them, and `update` must not.
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
  Schedule schedule;                              ///< one chunk per stage; `microbatches` counts those of each replica
  std::vector<std::vector<MeasuredPass>> passes;  ///< by stage and replica; the same number of replicas in every stage
  std::int64_t update_ns = 0;
};

/// Returns the nanoseconds of the step; bad_input if stages have different numbers of replicas, or the schedule does
/// not fit them.
Result<std::int64_t> replay(const ReplayedStep& step);

}  // namespace espalier::planner
