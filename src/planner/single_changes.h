// SPDX-License-Identifier: Apache-2.0
// Simulates single changes of a configuration: one dimension gets another value, and only its consequences change
// with it. The degree dp takes the remaining devices, and ZeRO shards over the ranks that hold the same weights.
// Overlaps stay if there is something to overlap, and stages are cut as the engine cuts them. `improve` lists the
// changes that gain; `explain` and the report take their advice from them.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Holds a configuration and the options that its user switched on, even without an effect (ZeRO 1 with dp 1).
struct ChangeBase {
  Strategy strategy;
  Schedule schedule;
  ZeroStage zero = ZeroStage::none;
  Overlap overlap = {};
};

/// Returns every legal single change inside the job's search part, by dimension. `now_ns` is the time of the base,
/// for the gains; 0: there is none.
std::vector<SingleChange> single_changes(const Job& job, const EngineModel& engine, const ChangeBase& base, std::int64_t now_ns);

/// Fills `changes` of a result whose plan is one uniform pipeline on equal devices. Other results have no changes.
void add_single_changes(const Job& job, PlannerResult& result);

}  // namespace espalier::planner
