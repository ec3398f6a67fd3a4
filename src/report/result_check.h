// SPDX-License-Identifier: Apache-2.0
// Verifies a result.json, trusting none of its content.
//
//   made-by         The document was made by this build. Figures of another one are not compared.
//   `iteration`, `breakdown`, `peak`, `memory-breakdown`, `limit`, `throughput`, `confidence`, `operators`, and
//   `prediction` (the rest) equal those of simulating the plan again, to the nanosecond and the byte. Nothing is
//                   missing, nothing is added.
//   certificate     lower_bound_s ≤ iteration_s; gap = (iteration − bound)/iteration. It is `optimal` exactly where the
//                   reason is "optimal", only with no gap, and with no runner-up that is faster (baselines need not be
//                   in the space).
//   devices         Every device has work, where the search was to leave none out.
//   digest          The document is unchanged: the parts that only a search could derive again (bounds, counters,
//                   reasons, the parts next to the answer) belong to this plan and prediction (digest.h).
//   counters        The values of every dimension add up to space_size. In a finished uniform search, so do pruned and
//                   simulated configurations; otherwise they never exceed it. In larger spaces, whose simulated plans
//                   are more, they reach it.
//   alternatives    Time, peak and `fits` of every named configuration equal those of simulating it.
//   search          (on request) The same search gives the same plan, certificate, space, counters, alternatives and
//                   reasons.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "check/check.h"
#include "espalier/planner.h"

namespace espalier::report {

/// Checks a result. `text` is one that result_from_json reads, and `job` is that of its plan.
std::vector<Finding> check_result(std::string_view text, const Job& job, const PlannerResult& claimed);

/// Repeats the search that the result names, and compares the whole documents except wall-clock values. Call only
/// when check_result found no other build. `how` sets threads, interruption and progress.
std::vector<Finding> check_search(std::string_view text, Job job, const PlannerResult& claimed, PlannerOptions how);

/// Compares names, one-line summaries and hashes of a plan with its embedded inputs: finding "summaries".
Finding check_summaries(const Job& job, const Plan& plan);

}  // namespace espalier::report
