// SPDX-License-Identifier: Apache-2.0
// Which rule pins break together: they are put into a configuration that is legal without one of them, and whatever no
// pin names is adapted to it, so that only rules about the pins stay broken.
#pragma once

#include <string>
#include <vector>

#include "espalier/job.h"
#include "job/pins.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// What breaks when a pin is put into a configuration that is legal under the other pins: of all pins, where least
/// breaks.
std::string broken_rule(const Job& job, const EngineModel& engine, const std::vector<job::Pin>& pins);
/// What each kind of parallelism breaks when it has all devices: the rules that leave nothing, without any pin.
std::string broken_by_each(const Job& job, const EngineModel& engine);

}  // namespace espalier::planner
