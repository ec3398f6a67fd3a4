// SPDX-License-Identifier: Apache-2.0
// Why this plan: the bottleneck, what each runner-up and baseline loses, and which rule removed how much of the space.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier {

/// The plan's own job with the space that the plan belongs to: of a plan that is not uniform, the layer-wise one.
Result<Job> job_to_explain(const Plan& plan);

/// A plan file says nothing of a search. This is the simulated plan (simulate) with the search of its job's whole space
/// beside it: the certificate, what others lose, and, where the plan is not the best of the space, the best one as an
/// alternative. Where the search finds no plan, `simulated` as it is.
PlannerResult with_search(const Job& job, PlannerResult simulated, const PlannerOptions& options);

/// Simulates every single change of the plan into `result.changes`, from which sentences take their advice: without it
/// they give none. Changes of plans that are not uniform, and of plans on unlike devices, are not simulated.
void simulate_changes(const Job& job, PlannerResult& result);

/// What limits the iteration, in sentences, largest first: time, then memory.
std::vector<std::string> bottlenecks(const PlannerResult& result);
/// For people, no line longer than `width` columns; 0: as wide as it is.
std::string explain(const PlannerResult& result, std::size_t width = 0);
/// schema espalier.explanation/1
std::string explain_json(const PlannerResult& result);

}  // namespace espalier
