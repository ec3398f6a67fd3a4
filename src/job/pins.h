// SPDX-License-Identifier: Apache-2.0
// The restrictions of a job one by one, as its file states them: for messages, and for trying what happens without one
// of them.
#pragma once

#include <string>
#include <vector>

#include "espalier/job.h"
#include "plan/engine_fwd.h"

namespace espalier::job {

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

}  // namespace espalier::job
