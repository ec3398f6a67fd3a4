// SPDX-License-Identifier: Apache-2.0
// What each operator of a partitioned block does and costs, for the answer and its explanation.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Of every partition of the plan, once: the operators of the first block under it, forward and backward of one
/// micro-batch.
std::vector<OperatorReport> operator_reports(const Job& job, const EngineModel& engine, const Plan& plan);

/// Why partitions are there, in one sentence each.
std::vector<std::string> partition_sentences(const PlannerResult& result);

}  // namespace espalier::planner
