// SPDX-License-Identifier: Apache-2.0
// Bounds the step from both sides without simulation, by the longest path through the plan's own program. One path
// uses the least duration of every instruction, the other the most, one after the other.
//
//     least   compute and all communication overlap without slowing each other down. Communication inside a layer is
//             exposed only as far as it exceeds the compute that hides it (layer_time.h).
//     most    data-parallel collectives stop the compute of their rank, nothing is hidden, every host waits.
//
// An instruction lasts as long as the layers of its chunk (plus recomputation), or its message or collective. ZeRO ≥
// 2 gathers and scatters inside the passes. The update is memory-bound over the states of a rank.
//
// Several pipelines have one program. A meeting of gradients (meeting_time.h) begins when all its members have
// reached it, and all continue when it ends.
//
// Times are rounded down (least) or up (most) once per instruction, with two nanoseconds a layer for the planner's
// own rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

struct StepTimeRange {
  std::int64_t least_ns = 0, most_ns = 0;
};

/// Requires a program of sound shape and waits that can run to its end.
StepTimeRange step_time(const View& view, const Program& program);
/// Returns the bounds of a plan with several pipelines. The program of each must be sound, and `views` holds one view
/// per pipeline.
StepTimeRange step_time_of_several(const Plan& plan, const std::vector<View>& views, const Program& program);

}  // namespace espalier::check
