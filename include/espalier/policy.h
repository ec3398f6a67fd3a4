// SPDX-License-Identifier: Apache-2.0
// Plans over a trace: the best fixed plan, when an online policy changes plans without knowing the future, and what a
// clairvoyant policy could achieve.
//
//   auto job = load_job_file("examples/…", {});      // a cluster with events or capacity over time
//   auto answer = adapt::plan_over_time(*job, {});
//   std::cout << to_text(*answer);                   // the plans, and when to change them.
//
// The model, the policy and the proof of its factor (src/adapt/policy.h) are documented in docs/adapt.md.
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

namespace espalier::adapt {

/// Holds the options of plan_over_time().
struct OverTimeOptions {
  ChangeOptions change;
  std::optional<double> checkpoint_age_s;  ///< none: half of Young's interval for the losses of the trace
  /// Seconds of the trace. None: it ends at the last change plus the mean time between changes.
  std::optional<double> length_s;
  double hysteresis = 0.02;    ///< a loss of up to this share is noise
  double detection_steps = 3;  ///< steps of the running plan until a change of the cluster is noticed
  std::size_t most_plans = 6;  ///< largest number of plans from which the policy chooses
};

/// Records that plan `plan` runs from `at_s` on.
struct TraceDecision {
  double at_s = 0;
  std::size_t plan = 0;
  bool operator==(const TraceDecision&) const = default;
};

/// Describes one of the plans, the best in at least one state of the cluster.
struct TracePlan {
  Plan plan;
  std::vector<std::int64_t> nodes_by_group;  ///< number of nodes that it uses from each group of the cluster
  std::int64_t iteration_ns = 0;             ///< without disturbance
  double runs_s = 0;                         ///< seconds of the trace with enough nodes for it
  double static_samples_per_s = 0;           ///< if the plan never changes, including pauses
  double worst_samples_per_s = 0;            ///< in the worst epoch; 0 where it cannot run
};

/// Describes one sequence of plans over the trace.
struct TraceRun {
  std::string name;          ///< "static", "static, worst case", "online", "clairvoyant"
  double samples_per_s = 0;  ///< over the whole trace, including pauses
  /// Gives the loss against the best plan at each moment if changes were free, in seconds at the best rate.
  double lost_s = 0;
  double moves_s = 0;  ///< seconds of pauses
  std::int64_t moves = 0;
  std::vector<TraceDecision> decisions;
};

/// Bounds the loss of the policy, in seconds at the best rate; src/adapt/policy.h has the proof.
struct PolicyBound {
  double factor = 1;  ///< F
  /// Gives the loss of the clairvoyant policy that is limited to the offered plans; with all plans it may lose less.
  double clairvoyant_s = 0;
  double cheapest_move_s = 0;  ///< between two of the offered plans; 0 if only one is offered
  double noise_s = 0;          ///< losses too small for a move: `hysteresis` of the time
  double unnoticed_s = 0;      ///< time until changes are noticed: `detection_s` per epoch
  [[nodiscard]] double lost_s() const { return factor * (clairvoyant_s + cheapest_move_s) + noise_s + unnoticed_s; }
};

/// Holds the plans, the runs over the trace, and the bound on the policy.
struct OverTime {
  double length_s = 0;
  std::int64_t epochs = 0, states = 0;  ///< times at which something changed, and distinct states of the cluster
  std::vector<TracePlan> plans;
  std::size_t best_static = 0, best_worst = 0;  ///< indices into `plans`: most samples, and most in the worst epoch
  std::vector<TraceRun> runs;                   ///< static, static in the worst case, online, clairvoyant
  double checkpoint_age_s = 0;                  ///< work that is lost together with states
  /// The policy chooses from the first plans, this many; 1: only the best fixed plan.
  std::size_t offered = 1;
  double detection_s = 0;  ///< time until the policy notices a change
  PolicyBound bound;       ///< bound on the loss of the policy
  double regret = 0;       ///< share of the clairvoyant's samples that the policy misses
  PlannerResult start;     ///< the answer: the best static plan on the initial nodes
};
/// Plans over the changes of the job's cluster. Rejects clusters that do not change.
Result<OverTime> plan_over_time(const Job& job, const OverTimeOptions& options);

/// Returns JSON of schema espalier.over-time/1.
std::string to_json(const OverTime& answer);
/// Returns text for a terminal.
std::string to_text(const OverTime& answer);

}  // namespace espalier::adapt
