// SPDX-License-Identifier: Apache-2.0
// A running plan and what happened to its cluster: what all actions of the ladder start from.
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

/// Plans of a job by the cluster that they are for, so that several questions search each once.
using PlanCache = std::map<std::string, Result<PlannerResult>>;

struct Situation {
  const Job* job = nullptr;    ///< the plan's own
  const Plan* plan = nullptr;  ///< that runs
  Cluster whole;               ///< with nodes that were added
  std::string source;
  ClusterState state;               ///< what holds now
  Placed placed;                    ///< where the plan runs
  std::vector<std::int64_t> used;   ///< nodes that it runs on, ascending
  std::vector<std::int64_t> lost;   ///< of these, those that are gone
  std::vector<std::int64_t> spare;  ///< nodes that are there and not used
  std::int64_t before_ns = 0;
  const EngineModel* engine = nullptr;
  ChangeOptions options;
  PlanCache* cache = nullptr;
  [[nodiscard]] MoveScene scene() const;
};

/// The plan at rest, then the disturbance. The job outlives the result.
Result<Situation> situation_of(const Job& job, const Plan& plan, const Disturbance& what, const ChangeOptions& options);

/// A step's time; `bound`: an upper bound where the network of a group is one figure, or devices of unlike speed have
/// no price.
struct StepTime {
  std::int64_t ns = 0;
  bool bound = false;
  bool fits = false;
  std::int64_t peak_bytes = 0, activation_bytes = 0, limit_bytes = 0;
};
/// Of a plan whose devices are those of the present cluster.
Result<StepTime> step_time(const Situation& s, const Present& present, const Plan& plan);

/// The plan on other numbers: its device d is number_of[d] there.
Plan renumbered(const Plan& plan, const std::vector<std::int64_t>& number_of);
/// The running plan on the nodes that it uses, as a cluster of their own: its devices keep their order.
Plan on_own_nodes(const Situation& s);

/// The job for the present cluster, as plan() and simulate() take it; `nominal`: without speeds.
Job job_on(const Situation& s, const Present& present, bool nominal);

/// Nodes that are there and neither slow nor narrowed.
std::vector<std::int64_t> healthy_nodes(const Situation& s);

/// Gain and break-even of an action whose step time and move are set.
void judge(Change& change, const std::optional<std::int64_t>& if_stay_ns);

}  // namespace espalier::adapt
