// SPDX-License-Identifier: Apache-2.0
// Lists the restrictions of a job one by one, as its file states them. They are used in messages, and to try a job
// without one of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "plan/engine_fwd.h"

namespace espalier::job {

/// Describes one restriction of the job: a dimension's values in `search`, or the engine.
struct Pin {
  enum class Kind : std::uint8_t { allow, forbid, limit, engine } kind = Kind::allow;
  std::optional<Dimension> dimension = {};  ///< none for the engine
};
std::vector<Pin> pins_of(const Job& job, const EngineModel& engine);
/// Returns "search.fix.tp: 8", "search.limits.pp: 2" or "engine: fsdp2", as the job file states it.
std::string text_of(const Pin& pin, const Job& job, const EngineModel& engine);
/// Returns the job's restrictions with only these pins. The engine is not part of them.
SearchSpace space_of(const std::vector<Pin>& pins, const Job& job);

}  // namespace espalier::job
