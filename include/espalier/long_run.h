// SPDX-License-Identifier: Apache-2.0
// Plans on links with token buckets (`capacity` of a cluster): what a step takes once the buckets have given what they
// held.
//
//   auto job = load_job_file("examples/clusters/scenarios/12-a-token-bucket.yaml", {});
//   auto answer = plan_for_long_run(*job, {});
//   std::cout << to_text(*answer);
//
// A plan that sends little loses nothing on such links, and one that sends much is slow after minutes. So plans are
// searched for four rates between the sustained and the full one, each of them is run step after step on the flow
// network with tokens carried from step to step until that repeats (adapt/repeated_step.h), and the answer is the one
// whose steps are shortest then. What proves it: no plan's step is shorter on links that are never faster than the full
// rate than the bound of the search at the full rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier {

/// A plan's steps on links with token buckets, that are full when it begins.
struct LongRun {
  std::int64_t first_ns = 0;   ///< the first step
  std::int64_t steps_ns = 0;   ///< a step of the long run, the mean where several alternate
  double lasts_s = 0;          ///< until the first step that is slower than those before; infinite: all are as fast
  double bytes = 0;            ///< a step, over the bucket that loses most, or gains least
  double least_ns = 0;         ///< by the bytes over any bucket at its sustained rate
  bool settled = true;         ///< false: the tokens did not come round, the mean is that of the last steps
  std::int64_t simulated = 0;  ///< steps
};

struct LongRunCandidate {
  std::string planned_for;  ///< "full rate", "sustained rate", "2/3 of the way to full"
  Plan plan;
  std::int64_t sustained_ns = 0;  ///< a step at the sustained rates, each message as if alone: the figure of `estimate`
  LongRun run;
};

struct LongRunAnswer {
  std::vector<LongRunCandidate> candidates;  ///< different plans, by rising step of the long run
  std::int64_t bound_ns = 0;                 ///< no plan's step is shorter in the long run
  PlannerResult answer;                      ///< of the first candidate, at the sustained rates
  [[nodiscard]] double gap() const;          ///< how much shorter one might still be: 1 − bound / step
};

/// The steps of a plan of this job. Refused: jobs without token buckets.
Result<LongRun> long_run(const Job& job, const Plan& plan);
Result<LongRunAnswer> plan_for_long_run(const Job& job, const PlannerOptions& options);

std::string to_text(const LongRunAnswer& answer);
/// schema espalier.long-run/1.
std::string to_json(const LongRunAnswer& answer);

}  // namespace espalier
