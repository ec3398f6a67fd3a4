// SPDX-License-Identifier: Apache-2.0
// Describes a running plan and the changes of its cluster, the input of all actions of the ladder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adapt/move.h"
#include "adapt/present.h"
#include "espalier/adapt.h"
#include "espalier/job.h"

namespace espalier::adapt {

/// Maps clusters to plans of a job. Several questions thus search each cluster once.
using PlanCache = std::map<std::string, Result<PlannerResult>>;

struct Situation {
  const Job* job = nullptr;    ///< the job of the plan
  const Plan* plan = nullptr;  ///< the running plan
  Cluster whole;               ///< including nodes that were added
  std::string source;
  ClusterState state;               ///< the present state
  Placed placed;                    ///< the present location of the plan
  std::vector<std::int64_t> used;   ///< nodes that it runs on, ascending
  std::vector<std::int64_t> lost;   ///< used nodes that are gone
  std::vector<std::int64_t> spare;  ///< nodes that are present and not used
  std::int64_t before_ns = 0;
  const EngineModel* engine = nullptr;
  ChangeOptions options;
  PlanCache* cache = nullptr;
  [[nodiscard]] MoveScene scene() const;
};

/// Applies the disturbance to the plan at rest. The job must outlive the result.
Result<Situation> situation_of(const Job& job, const Plan& plan, const Disturbance& what, const ChangeOptions& options);

/// Holds a step's time. `bound`: it is an upper bound, because the network of a group has one bandwidth, or unlike
/// devices have no price.
struct StepTime {
  std::int64_t ns = 0;
  bool bound = false;
  bool fits = false;
  std::int64_t peak_bytes = 0, activation_bytes = 0, limit_bytes = 0;
};
/// Returns the step time of a plan whose devices are those of the present cluster.
Result<StepTime> step_time(const Situation& s, const Present& present, const Plan& plan);

/// Returns the plan with its devices renumbered: device d becomes number_of[d].
Plan renumbered(const Plan& plan, const std::vector<std::int64_t>& number_of);
/// Returns the running plan on the nodes that it uses, as a cluster of their own. Its devices keep their order.
Plan on_own_nodes(const Situation& s);

/// Returns the job for the present cluster, as plan() and simulate() take it; `nominal`: without speeds.
Job job_on(const Situation& s, const Present& present, bool nominal);

/// Returns nodes that are present and neither slow nor narrowed.
std::vector<std::int64_t> healthy_nodes(const Situation& s);

/// Sets the gain and break-even of an action whose step time and move are set.
void judge(Change& change, const std::optional<std::int64_t>& if_stay_ns);

}  // namespace espalier::adapt
