// SPDX-License-Identifier: Apache-2.0
// What it costs to go from one plan to another while training runs: the difference of who holds what
// (plan/ownership.h), over the network that is there.
//
// Gradients are empty between steps; parameters and optimizer states (with master weights) move.
//
//     of every rank of the new plan     needs = what it will hold − what the same device holds now
//     a missing byte comes from         a device that holds it, is still there and is reached: of its own node, else of
//                                       its node group if the way of
//                                       any holder there is as wide as usual, else of any; in up to eight parts, each
//                                       from the holder whose way out
//                                       and links between groups would have carried it first
//     storage                           If nobody holds some byte, the states of the last checkpoint are the newest
//                                       that are whole: every rank
//                                       reads all that it will hold, and the steps since then are lost. The same where
//                                       that is sooner than the
//                                       transfer between peers:  storage + rollback < transfer
//
// Seconds are the most that any link needs for its bytes alone, plus the latency of the slowest way: a lower bound of
// any schedule of these transfers, and what a schedule reaches that keeps the busiest link busy. Links: of each device
// its way inside the node, of each node its way to the network (both by direction, at the bandwidth that large messages
// reach), each link between groups, and storage by device.
//
//     pause = restart + transfer (or storage) + rollback + warm-up
//
// Restart is what passes from the decision to the first new step when nothing moves: processes and communicators.
// Warm-up is what the first steps take longer: caches, autotuning, memory pools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/adapt.h"
#include "espalier/cluster.h"
#include "espalier/cluster_change.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/ownership.h"

namespace espalier::adapt {

/// A plan and where its devices are: devices[d] = number of the plan's device d in the whole cluster.
struct Placed {
  const Plan* plan = nullptr;
  std::vector<std::int64_t> devices;
};

struct MoveScene {
  const Model* model = nullptr;
  const EngineModel* engine = nullptr;
  Training training;
  const Cluster* cluster = nullptr;  ///< the whole one
  ClusterState state;                ///< what is away now, and how wide links are
  MoveOptions options;
};

/// Refused where a plan partitions operators one by one.
Result<Move> move_of(const MoveScene& scene, const Placed& from, const Placed& to);

/// The same plan on the same devices after their nodes are gone from or back in it: nothing moves, only the restart is
/// paid.
Move restart_alone(const MoveOptions& options);

/// Bytes that devices of the new plan hold already: held[new device of `to.plan`][device of the whole cluster, by place
/// in `devices`]. What settle.h chooses places by.
Result<std::vector<std::vector<std::int64_t>>> kept_bytes(const MoveScene& scene, const Placed& from, const Plan& to,
                                                          const std::vector<std::int64_t>& devices);

}  // namespace espalier::adapt
