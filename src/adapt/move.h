// SPDX-License-Identifier: Apache-2.0
// Prices the move from one plan to another while training runs. It compares what each device holds (plan/ownership.h)
// and sends the difference over the present network.
//
// Gradients are empty between steps; parameters and optimizer states (with master weights) move.
//
//     of every rank of the new plan     needs = what it will hold − what the same device holds now
//     a missing byte comes from         a device that holds it, is still there and is reached. This is one of its own
//                                       node, else one of its node group if the path of any holder there is as wide as
//                                       usual, else any. It comes in up to eight parts, each from the holder whose
//                                       path out and links between groups would have carried it first.
//     storage                           If some byte has no holder, the last checkpoint holds the newest complete
//                                       states. Every rank then reads all that it will hold, and the steps since the
//                                       checkpoint are lost. Storage is also used if it is faster than the transfer
//                                       between peers: storage + rollback < transfer.
//
// A transfer lasts as long as the busiest link needs for its bytes alone, plus the latency of the slowest path. This
// is a lower bound of any schedule of these transfers, reached by one that keeps the busiest link busy. The
// links are each device's path inside its node, each node's path to the network, each link between groups, and storage
// by device. The first two count by direction, at the bandwidth that large messages reach.
//
// A move pauses training for
//     pause = restart + transfer (or storage) + rollback + warm-up.
//
// Restart is the time from the decision to the first new step if nothing moves: processes and communicators. Warm-up
// is the extra time of the first steps: caches, autotuning, memory pools.
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

/// Holds a plan and its location: devices[d] is the number of the plan's device d in the whole cluster.
struct Placed {
  const Plan* plan = nullptr;
  std::vector<std::int64_t> devices;
};

struct MoveScene {
  const Model* model = nullptr;
  const EngineModel* engine = nullptr;
  Training training;
  const Cluster* cluster = nullptr;  ///< the whole one
  ClusterState state;                ///< nodes that are away, and bandwidths of links
  MoveOptions options;
};

/// Prices the move. Returns an error if a plan partitions operators one by one.
Result<Move> move_of(const MoveScene& scene, const Placed& from, const Placed& to);

/// Prices a restart of the same plan on the same devices after their nodes left or returned. Nothing moves.
Move restart_alone(const MoveOptions& options);

/// Returns the bytes that devices of the new plan already hold, as held[new device of `to.plan`][index in `devices`].
/// `devices` are those of the whole cluster. In settle.h these bytes decide the places.
Result<std::vector<std::vector<std::int64_t>>> kept_bytes(const MoveScene& scene, const Placed& from, const Plan& to,
                                                          const std::vector<std::int64_t>& devices);

}  // namespace espalier::adapt
