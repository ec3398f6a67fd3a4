// SPDX-License-Identifier: Apache-2.0
// Finds the rule that pins break together. It puts the pins into a configuration that is legal without one of them.
// It adapts all dimensions that no pin names, so that only rules about the pins stay broken.
#pragma once

#include <string>
#include <vector>

#include "espalier/job.h"
#include "job/pins.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Returns the rules that break when a pin is put into a configuration that is legal under the other pins. It takes
/// the pin that breaks the fewest rules.
std::string broken_rule(const Job& job, const EngineModel& engine, const std::vector<job::Pin>& pins);
/// Returns the rules that each kind of parallelism breaks when it gets all devices: those that exclude everything
/// without any pin.
std::string broken_by_each(const Job& job, const EngineModel& engine);

}  // namespace espalier::planner
