// SPDX-License-Identifier: Apache-2.0
// Simulates the iteration of a uniform plan with one process per device instead of one per stage. The public API has
// no such simulation, so this is the one place of the answer files that reads the implementation.
#pragma once

#include <cstdint>

#include "plan/program.h"
#include "planner/prediction.h"
#include "sim/simulator.h"

namespace espalier::golden {

inline Result<std::int64_t> unfolded_ns(const Job& job, const Plan& plan) {
  const auto engine = planner::engine_of(job);
  if (!engine) return engine.error();
  const auto timed = planner::time_plan(job, **engine, plan, false);
  if (!timed) return timed.error();
  const auto simulation = sim::Simulator().run(lower(plan, job.model, false), timed->costs);
  if (!simulation) return simulation.error();
  return simulation->iteration_ns;
}

}  // namespace espalier::golden
