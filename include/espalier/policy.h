// SPDX-License-Identifier: Apache-2.0
// Plans over a trace: which plan never changed does best, when to change it without knowing what comes, and what one
// could do who knew.
//
//   auto job = load_job_file("examples/…", {});      // a cluster with events or capacity over time
//   auto answer = plan_over_time(*job, {});
//   std::cout << to_text(*answer);
//
// docs/adapt.md: the model, the policy, and the proof of its factor (src/adapt/policy.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "espalier/adapt.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier {

struct OverTimeOptions {
  ChangeOptions change;
  std::optional<double> checkpoint_age_s;  ///< none: half of Young's interval for the losses of the trace
  double length_s = 0;                     ///< of the trace; 0: until the last change, and as long again as the mean
                                           ///< time between
                                           ///< changes
  double hysteresis = 0.02;                ///< a loss of at most this share is noise
  double detection_steps = 3;              ///< of the running plan, until a change of the cluster is noticed
  std::size_t most_plans = 6;              ///< that the policy chooses from
};

/// From `at_s` on plan `plan` runs.
struct TraceDecision {
  double at_s = 0;
  std::size_t plan = 0;
  bool operator==(const TraceDecision&) const = default;
};

/// One of the plans, the best of at least one state of the cluster.
struct TracePlan {
  Plan plan;
  std::vector<std::int64_t> nodes_by_group;  ///< how many nodes of each group of the cluster it takes
  std::int64_t iteration_ns = 0;             ///< undisturbed
  double runs_s = 0;                         ///< of the trace, how long there are nodes enough for it
  double static_samples_per_s = 0;           ///< if it never changes, pauses counted
  double worst_samples_per_s = 0;            ///< in the worst epoch; 0 where it cannot run
};

/// A way to go through the trace.
struct TraceRun {
  std::string name;          ///< "static", "static, worst case", "online", "clairvoyant"
  double samples_per_s = 0;  ///< over the whole trace, pauses counted
  double lost_s = 0;         ///< against the best plan of each moment, changed for nothing: seconds at the best rate
  double moves_s = 0;        ///< of pauses
  std::int64_t moves = 0;
  std::vector<TraceDecision> decisions;
};

/// What the policy loses at most, in seconds at the best rate; the proof is in src/adapt/policy.h.
struct PolicyBound {
  double factor = 1;           ///< F
  double clairvoyant_s = 0;    ///< what the clairvoyant of the offered plans loses; that of all plans may lose less
  double cheapest_move_s = 0;  ///< between two of the offered plans; 0 where one is offered
  double noise_s = 0;          ///< losses too small to move for: `hysteresis` of the time
  double unnoticed_s = 0;      ///< until changes are noticed: `detection_s` of every epoch
  [[nodiscard]] double lost_s() const { return factor * (clairvoyant_s + cheapest_move_s) + noise_s + unnoticed_s; }
};

struct OverTime {
  double length_s = 0;
  std::int64_t epochs = 0, states = 0;  ///< times at which something changed, and different states of the cluster
  std::vector<TracePlan> plans;
  std::size_t best_static = 0, best_worst = 0;  ///< of `plans`: most samples, most samples in the worst epoch
  std::vector<TraceRun> runs;                   ///< static, static in the worst case, online, clairvoyant
  double checkpoint_age_s = 0;                  ///< work lost where states are
  std::size_t offered = 1;  ///< the policy chooses from the first so many plans; 1: from the best that never changes
                            ///< alone
  double detection_s = 0;   ///< until the policy notices a change
  PolicyBound bound;        ///< of what the policy loses
  double regret = 0;        ///< samples of the clairvoyant that the policy misses, as a share
  PlannerResult start;      ///< the best static plan on the nodes of the start: the answer
};
/// Refuses clusters that do not change.
Result<OverTime> plan_over_time(const Job& job, const OverTimeOptions& options);

/// schema espalier.over-time/1.
std::string to_json(const OverTime& answer);
std::string to_text(const OverTime& answer);

}  // namespace espalier
