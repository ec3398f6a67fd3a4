// SPDX-License-Identifier: Apache-2.0
// What the planner claims against what the check derives.
//
//   claims-shape        one number per stage or chunk
//   static-memory       parameters + gradients + optimizer states of every stage, to the byte
//   saved-activations   of every chunk, to 16 bytes a layer plus one part in a million (rounding of fractions)
//   boundary-messages   pipeline messages, to the byte
//   gradient-messages   gradient reduction, to the byte
//   memory-limit        the limit is what the device leaves, and no peak exceeds it
//   host-memory         under offload: the hosts hold what their devices put there
//   peak-memory         every stage's peak is within 2 % of states, buffers, reserve and the most activations at one
//                       time (peak_memory.h)
//   time-bounds         the step lasts at least the longest path of the program with all that can be hidden hidden, and
//                       at most 1.5 times
//                       that with nothing hidden (step_time.h)
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// Of a part of several pipelines without the time, and of the memory limit only that no peak exceeds it.
/// `replayable`: the program is sound and runs to its end; otherwise peaks and time, which follow it, are left out.
std::vector<Finding> check_claims(const View& view, const Program& program, bool replayable, const Claims& claims);

/// Of several pipelines, each of which was found sound: the limit is the least of all devices that are used; the step
/// lasts at least what the slowest pipeline takes by itself, and at most 1.5 times that with all meetings of gradients
/// one after the other, at the pace of the slowest way.
std::vector<Finding> check_claims_of_several(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program,
                                             const Claims& claims, const EngineModel* engine);

}  // namespace espalier::check
