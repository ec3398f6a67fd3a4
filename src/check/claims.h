// SPDX-License-Identifier: Apache-2.0
// Compares the planner's claims with the derived values.
//
//   claims-shape        one number per stage or chunk
//   static-memory       parameters + gradients + optimizer states of every stage, to the byte
//   saved-activations   of every chunk, to 16 bytes a layer plus one part in a million (rounding of fractions)
//   boundary-messages   pipeline messages, to the byte
//   gradient-messages   gradient reduction, to the byte
//   memory-limit        the limit equals what the device leaves, and no peak exceeds it
//   host-memory         under offload: the hosts hold what their devices put there
//   peak-memory         every stage's peak is within 2 % of states, buffers, reserve and the most activations held at
//                       one time (stage_peaks.h)
//   time-bounds         the step lasts at least the longest path of the program with everything hidden that can be,
//                       and at most 1.5 times the path with nothing hidden (step_time.h)
#pragma once

#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

/// Checks the claims of a plan. If it is part of several pipelines, the time is left out, and of the memory limit
/// only the peaks are checked. `replayable`: the program is sound and runs to its end. Otherwise peaks and time,
/// which depend on it, are left out.
std::vector<Finding> check_claims(const View& view, const Program& program, bool replayable, const Claims& claims);

/// Checks the claims of several pipelines that were found sound one by one. The limit is the smallest over all used
/// devices. The step lasts at least as long as the slowest pipeline alone. It lasts at most 1.5 times that with all
/// gradient meetings in series, over the slowest path.
std::vector<Finding> check_claims_of_several(const Plan& plan, const Model& model, const Cluster& cluster, const Program& program,
                                             const Claims& claims, const EngineModel* engine);

}  // namespace espalier::check
