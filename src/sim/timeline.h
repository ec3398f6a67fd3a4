// SPDX-License-Identifier: Apache-2.0
// Converts a simulated program to the timeline that users see (espalier/timeline.h).
#pragma once

#include "cost/costs.h"
#include "espalier/simulate.h"
#include "espalier/timeline.h"
#include "plan/program.h"

namespace espalier::sim {

/// Returns the timeline. `simulation` must have spans.
Timeline timeline_of(const Plan& plan, const Program& program, const cost::Costs& costs, const Simulation& simulation);

}  // namespace espalier::sim
