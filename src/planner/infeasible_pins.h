// SPDX-License-Identifier: Apache-2.0
// Why no configuration of a job is legal: the pins of `search` and the engine that exclude each other, the rule they
// break together, and the changes of one of them that would do.
//
// The set is minimal in the sense of deletion: with any one of its members taken back, and all that is not a member
// with it, some configuration is legal. It is found by taking members back one at a time, and is deterministic: pins in
// the order fix and allow, forbid, limits, each by name, then the engine. Every change that is suggested was tried: it
// leaves a legal configuration under all of the job's pins.
#pragma once

#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// For a job without a legal configuration. Error kind infeasible.
Error nothing_legal(const Job& job, const EngineModel& engine);

}  // namespace espalier::planner
