// SPDX-License-Identifier: Apache-2.0
// Reports the work and the cost of each operator of a partitioned block, for the answer and its explanation.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"

namespace espalier::planner {

/// Returns the operators of every partition of the plan, each partition once. They are those of the first block under
/// it, forward and backward of one micro-batch.
std::vector<OperatorReport> operator_reports(const Job& job, const EngineModel& engine, const Plan& plan);

/// Explains in one sentence each why the plan uses its partitions.
std::vector<std::string> partition_sentences(const PlannerResult& result);

}  // namespace espalier::planner
