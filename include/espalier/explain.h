// SPDX-License-Identifier: Apache-2.0
// Explains a plan: the bottleneck, where each runner-up and baseline loses time, and how much of the space each rule
// removed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier::report {

/// Returns the plan's own job with the space of the plan: layer-wise if the plan is not uniform.
Result<Job> job_to_explain(const Plan& plan);

/// Adds a search to a simulated plan, because a plan file does not record its search. The search covers the whole
/// space of the plan's job. The result has the certificate and the losses of other plans; if the plan is not the best
/// of the space, the best one is an alternative. If the search finds no plan, `simulated` is returned as it is.
PlannerResult with_search(const Job& job, PlannerResult simulated, const PlannerOptions& options);

/// Simulates every single change of the plan and stores them in `result.changes`, from which the sentences take their
/// advice. Without it, the sentences give no advice. Plans that are not uniform and plans on unlike devices are
/// skipped.
void simulate_changes(const Job& job, PlannerResult& result);

/// Returns the limits of the step as sentences, largest first: time, then memory.
std::vector<std::string> bottlenecks(const PlannerResult& result);
/// Returns text for a terminal, wrapped at `width` columns; 0 does not wrap.
std::string explain(const PlannerResult& result, std::size_t width = 0);
/// Returns JSON of schema espalier.explanation/1.
std::string explain_json(const PlannerResult& result);

}  // namespace espalier::report
