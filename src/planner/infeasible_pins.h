// SPDX-License-Identifier: Apache-2.0
// Explains why no configuration of a job is legal. It names the pins of `search` and the engine that exclude each
// other, the rule that they break together, and changes of one of them that would help.
//
// The set of pins is minimal in the sense of deletion. Some configuration is legal once any one member is removed
// together with all pins outside the set. The set is found by removing members one at a time. This is deterministic:
// pins come in the order fix and allow, forbid, limits, each by name, then the engine. Every suggested change was
// tried: it leaves a legal configuration under all of the job's pins.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Explains a job without a legal configuration. The error kind is infeasible.
Error nothing_legal(const Job& job, const EngineModel& engine);

/// Returns "engine: megatron-core@0.19 or nemo": a version of the job's engine out of `versions` and other engines that
/// can run the job. The engine without a version is none of them where the job names a version.
std::string other_engines(const Job& job, const std::vector<const EngineModel*>& versions);

}  // namespace espalier::planner
