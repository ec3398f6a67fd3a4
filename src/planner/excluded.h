// SPDX-License-Identifier: Apache-2.0
// Why no configuration of a job is legal: the pins of `search` and the engine that exclude each other, the rule they break together,
// and the changes of one of them that would do.
//
// The set is minimal in the sense of deletion: with any one of its members taken back, and all that is not a member with it, some
// configuration is legal. It is found by taking members back one at a time, and is deterministic: pins in the order fix and allow,
// forbid, limits, each by name, then the engine. Every change that is suggested was tried: it leaves a legal configuration under all
// of the job's pins.
#pragma once

#include "espalier/planner.h"
#include "plan/engine.h"

namespace espalier {

/// For a job without a legal configuration. Error kind infeasible.
Error nothing_legal(const Job& job, const EngineModel& engine);

namespace planner {

/// One restriction of the job: what `search` says of a dimension, or the engine.
struct Pin {
  enum class Kind : std::uint8_t { allow, forbid, limit, engine } kind = Kind::allow;
  std::string dimension;  ///< empty for the engine
};
std::vector<Pin> pins_of(const Job& job, const EngineModel& engine);
/// "search.fix.tp: 8", "search.limits.pp: 2", "engine: fsdp2": as the job file states it.
std::string text_of(const Pin& pin, const Job& job, const EngineModel& engine);
/// The job's restrictions with only these pins of its own; the engine is no part of them.
SearchSpace space_of(const std::vector<Pin>& pins, const Job& job);

}  // namespace planner
}  // namespace espalier
