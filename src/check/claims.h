// SPDX-License-Identifier: Apache-2.0
// What the planner claims against what the check derives.
//
//   claims-shape        one number per stage or chunk
//   static-memory       parameters + gradients + optimizer states of every stage, to the byte
//   saved-activations   of every chunk, to 16 bytes a layer plus one part in a million (rounding of fractions)
//   boundary-messages   pipeline messages, to the byte
//   gradient-messages   gradient reduction, to the byte
//   memory-limit        the limit is what the device leaves, and no peak exceeds it
//   peak-memory         every stage's peak is within 2 % of states, buffers, reserve and the most activations at one time (peak_memory.h)
//   time-bounds         the step lasts at least the longest path of the program with all that can be hidden hidden, and at most 1.5 times
//                       that with nothing hidden (step_time.h)
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// `replayable`: the program is sound and runs to its end; otherwise peaks and time, which follow it, are left out.
std::vector<Finding> check_claims(const View& view, const Program& program, bool replayable, const Claims& claims);

}  // namespace espalier::check
