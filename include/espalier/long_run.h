// SPDX-License-Identifier: Apache-2.0
// Plans for links with token buckets (`capacity` of a cluster), judged by the long-run step time. By then the buckets
// are empty.
//
//   auto job = load_job_file("examples/clusters/scenarios/12-a-token-bucket.yaml", {});
//   auto answer = adapt::plan_for_long_run(*job, {});
//   std::cout << to_text(*answer);     // candidates, fastest first.
//
// A plan that sends little loses nothing on such links, and one that sends much becomes slow after minutes. Plans are
// therefore searched for four rates between the sustained and the full rate. Each plan runs step after step on the
// flow network, with tokens carried over, until the pattern repeats (adapt/repeated_step.h). The answer is the plan
// whose steps are shortest then. The proof: links are never faster than the full rate, so no plan's step is shorter
// than the bound of the search at the full rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier::adapt {

/// Describes the steps of a plan on links with token buckets, which are full at the start.
struct LongRun {
  std::int64_t first_ns = 0;   ///< the first step
  std::int64_t steps_ns = 0;   ///< a step of the long run; the mean where several alternate
  double lasts_s = 0;          ///< time until the first step that is slower than those before it; infinite: no step
                               ///< is slower
  double bytes = 0;            ///< per step, through the bucket that loses the most or gains the least
  double least_ns = 0;         ///< lower bound: the bytes through any bucket at its sustained rate
  bool settled = true;         ///< false: the tokens did not repeat, and the mean is over the last steps
  std::int64_t simulated = 0;  ///< number of steps
};

/// Holds a plan, the rate for which it was searched, and its steps.
struct LongRunCandidate {
  std::string planned_for;  ///< "full rate", "sustained rate", "2/3 of the way to full"
  Plan plan;
  std::int64_t sustained_ns = 0;  ///< a step at the sustained rates with each message alone, as in `estimate`
  LongRun run;
};

/// Holds the candidates, fastest first, and the bound.
struct LongRunAnswer {
  std::vector<LongRunCandidate> candidates;  ///< distinct plans, by ascending step of the long run
  std::int64_t bound_ns = 0;                 ///< no plan has a shorter step in the long run
  PlannerResult answer;                      ///< the first candidate, at the sustained rates
  [[nodiscard]] double gap() const;          ///< how much shorter a step could still be: 1 − bound / step
};

/// Simulates the steps of a plan of this job. Rejects jobs without token buckets.
Result<LongRun> long_run(const Job& job, const Plan& plan);
/// Finds the plan with the shortest step in the long run.
Result<LongRunAnswer> plan_for_long_run(const Job& job, const PlannerOptions& options);

/// Returns text for a terminal.
std::string to_text(const LongRunAnswer& answer);
/// Returns JSON of schema espalier.long-run/1.
std::string to_json(const LongRunAnswer& answer);

}  // namespace espalier::adapt
