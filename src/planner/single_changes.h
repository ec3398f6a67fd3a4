// SPDX-License-Identifier: Apache-2.0
// Single changes of a configuration, each simulated: one dimension gets another value, and only what follows from it
// follows. The degree dp takes the devices that are left, ZeRO shards over the ranks that hold the same weights,
// overlaps stay where there is something to overlap, and stages are cut as the engine cuts them. `improve` lists the
// changes that gain; `explain` and the report take their advice from them.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// A configuration, and what its user switched on whether or not there is something for it (ZeRO 1 where dp is 1).
struct ChangeBase {
  Strategy strategy;
  Schedule schedule;
  ZeroStage zero = ZeroStage::none;
  Overlap overlap = {};
};

/// Every legal single change inside the job's search part, by dimension. `now_ns`: time of the base, for the gains; 0:
/// it has none.
std::vector<SingleChange> single_changes(const Job& job, const EngineModel& engine, const ChangeBase& base, std::int64_t now_ns);

/// Fills `changes` of a result whose plan is one uniform pipeline on equal devices; other results have none.
void add_single_changes(const Job& job, PlannerResult& result);

}  // namespace espalier::planner
