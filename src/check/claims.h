// SPDX-License-Identifier: Apache-2.0
// What the planner claims against what the check derives.
//
//   claims-shape        one number per stage or chunk
//   static-memory       parameters + gradients + optimizer states of every stage, to the byte
//   saved-activations   of every chunk, to 16 bytes a layer plus one part in a million (rounding of fractions)
//   boundary-messages   pipeline messages, to the byte
//   gradient-messages   gradient reduction, to the byte
//   peak-memory         no stage's peak is below its static memory + the most saved activations the program holds at one time
//   memory-limit        the limit is at most what the device leaves, and no peak exceeds it
//   time-lower-bound    the step is not shorter than its matrix arithmetic at peak
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// `replayable`: the program's shape and waits are sound; otherwise peaks are only compared with static memory.
std::vector<Finding> check_claims(const View& view, const Program& program, bool replayable, const Claims& claims);

}  // namespace espalier::check
