// SPDX-License-Identifier: Apache-2.0
// A result.json verified: nothing that it says is believed.
//
//   made-by        the document was made by this build; figures of another one are not compared
//   iteration, breakdown, peak, memory-breakdown, limit, throughput, confidence, operators, prediction (whatever else a
//   prediction says)
//                  equal those of simulating the plan again, to the nanosecond and the byte; nothing is missing,
//                  nothing is added
//   certificate    lower_bound_s ≤ iteration_s; gap = (iteration − bound)/iteration; `optimal` exactly where the reason
//                  is "optimal",
//                  only with no gap, and with no runner-up that is faster (baselines need not lie in the space)
//   devices        every device has work, where the search was to leave none out
//   digest         the document is as it was written: what only a search could derive again (bounds, counters, reasons,
//                  what stands beside the
//                  answer) belongs to this plan and prediction (digest.h)
//   counters       the values of every dimension add up to space_size; so do pruned and simulated configurations of a
//                  finished uniform
//                  search, and never exceed it otherwise; of larger spaces, whose simulated plans are more, they reach
//                  it
//   alternatives   time, peak and `fits` of every named configuration equal those of simulating it
//   search         (on request) a search for the same gives the same plan, certificate, space, counters, alternatives
//                  and reasons
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "check/check.h"
#include "espalier/planner.h"

namespace espalier::report {

/// `text`: of a result that result_from_json reads. `job`: of its plan.
std::vector<Finding> check_result(std::string_view text, const Job& job, const PlannerResult& claimed);

/// Searches for what the result says it was asked for, and compares the whole documents but for wall-clock values.
/// Call only when check_result found no other build. `how`: threads, interruption and progress.
std::vector<Finding> check_search(std::string_view text, Job job, const PlannerResult& claimed, PlannerOptions how);

/// Names, one-line summaries and hashes of a plan against its embedded inputs: finding "summaries".
Finding check_summaries(const Job& job, const Plan& plan);

}  // namespace espalier::report
