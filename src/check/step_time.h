// SPDX-License-Identifier: Apache-2.0
// Between what two times a step must lie, without simulation: the longest path through the plan's own program, once
// with the least that every instruction can last and once, one after the other, with the most.
//
//     least   compute and every kind of communication run beside each other without slowing each other down;
//             communication inside a layer
//             is exposed only by what exceeds the compute beside it (layer_time.h)
//     most    data-parallel collectives stop the compute of their rank, nothing is hidden, every host waits
// An instruction lasts as long as the layers of its chunk (and what recomputation adds), or its message or collective;
// ZeRO ≥ 2 gathers and scatters inside the passes. Of several pipelines the program is one: a meeting of gradients
// (meeting_time.h) begins when all that meet in it have come so far, and all go on when it ends; the update is
// memory-bound over the states of a rank. Times are rounded down (least) or up (most) once an instruction, with two
// nanoseconds a layer for the planner's own rounding.
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
/// The same of a plan of several pipelines, each of sound program and `views` of them by themselves.
StepTimeRange step_time_of_several(const Plan& plan, const std::vector<View>& views, const Program& program);

}  // namespace espalier::check
