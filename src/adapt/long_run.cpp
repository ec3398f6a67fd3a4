// SPDX-License-Identifier: Apache-2.0
// Plans on links with token buckets: runs candidates for several rates step after step (espalier/long_run.h).
#include "espalier/long_run.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "adapt/repeated_step.h"
#include "base/invariant.h"
#include "espalier/cluster_change.h"
#include "planner/prediction.h"

namespace espalier::adapt {
namespace {

/// Describes a rate for which plans are searched. `share` places it between the sustained and the full rate, in equal
/// factors.
struct SearchedRate {
  double share;
  const char* name;
};
constexpr std::array<SearchedRate, 4> kRates{
    {{1.0, "full rate"}, {2.0 / 3, "2/3 of the way to full"}, {1.0 / 3, "1/3 of the way to full"}, {0.0, "sustained rate"}}};

Status refused(const Job& job) {
  if (!job.with_buckets)
    return Error{ErrorKind::bad_input, "cluster.capacity", "no token bucket", "a link with a token bucket", "espalier plan"};
  if (job.cluster.changes())
    return Error{ErrorKind::bad_input, "cluster", "token buckets on a cluster that changes", "one that does not change",
                 "espalier plan answers over its events and capacities"};
  if (job.cluster.devices() > kMostFlowDevices)
    return Error{ErrorKind::bad_input, "cluster.capacity",
                 std::to_string(job.cluster.devices()) + " devices behind token buckets",
                 "at most " + std::to_string(kMostFlowDevices), "plan with the sustained rate as the bandwidth"};
  return {};
}

/// Returns the job on links of this rate.
Job job_at(const Job& job, double share) {
  Job out = job;
  out.cluster = at_bucket_rates(*job.with_buckets, share);
  out.with_buckets.reset();
  out.objective.reset();
  return out;
}

class LongRunChoice {
 public:
  LongRunChoice(const Job& job, const PlannerOptions& options) : job_(job), options_(options) {}

  Result<LongRunAnswer> run() {
    std::optional<Error> none;
    for (const SearchedRate& rate : kRates) {
      const auto found = plan(job_at(job_, rate.share), options_);
      if (!found) {
        if (!none) none = found.error();
        continue;
      }
      if (rate.share == 1.0) out_.bound_ns = found->search.lower_bound_ns;
      if (Status status = add(rate, found->plan); !status.ok()) return status.error();
    }
    if (out_.candidates.empty()) return *none;
    std::stable_sort(out_.candidates.begin(), out_.candidates.end(),
                     [](const auto& a, const auto& b) { return a.run.steps_ns < b.run.steps_ns; });
    auto answer = simulate(job_, out_.candidates.front().plan);
    if (!answer) return answer.error();
    out_.answer = std::move(*answer);
    return std::move(out_);
  }

 private:
  Status add(const SearchedRate& rate, const Plan& plan) {
    if (!known_.insert(content_hash(plan)).second) return {};
    LongRunCandidate candidate;
    candidate.planned_for = rate.name;
    candidate.plan = plan;
    auto run = long_run(job_, plan);
    // The flow network does not support this plan.
    if (!run && run.error().kind == ErrorKind::bad_input) return {};
    if (!run) return run.error();
    const auto lasting = simulate(job_, plan);
    if (!lasting) return lasting.error();
    candidate.run = *run;
    candidate.sustained_ns = lasting->prediction.iteration_ns;
    out_.candidates.push_back(std::move(candidate));
    return {};
  }

  const Job& job_;
  const PlannerOptions& options_;
  LongRunAnswer out_;
  std::set<std::string> known_;
};

}  // namespace

double LongRunAnswer::gap() const {
  ESPALIER_CHECK(!candidates.empty() && candidates.front().run.steps_ns > 0);
  return 1.0 - static_cast<double>(bound_ns) / static_cast<double>(candidates.front().run.steps_ns);
}

Result<LongRun> long_run(const Job& job, const Plan& plan) {
  if (Status status = refused(job); !status.ok()) return status.error();
  const Job full = job_at(job, 1.0);
  const auto engine = planner::engine_of(full);
  if (!engine) return engine.error();
  return repeated_step(full, **engine, *job.with_buckets, plan);
}

Result<LongRunAnswer> plan_for_long_run(const Job& job, const PlannerOptions& options) {
  if (Status status = refused(job); !status.ok()) return status.error();
  return LongRunChoice(job, options).run();
}

}  // namespace espalier::adapt
