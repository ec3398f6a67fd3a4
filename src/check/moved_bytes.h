// SPDX-License-Identifier: Apache-2.0
// What must move between devices when one plan takes the place of another, derived from the two plans alone
// (docs/adapt.md, "What a move costs"). Parameters and optimizer states with master weights move; gradients are empty
// between steps.
//
// Every layer is cut where anybody's part of it begins or ends, before or after. Of each piece the checker knows who
// holds it now and is there, and who will hold it. Whoever will and does not now takes it from the nearest holder that
// it has a way to: of its node, else of its node group unless all that hold it there have narrowed ways, else of any.
// Which of several such holders sends is free, so that what a link carries is known between two bounds; what a node
// takes in is known exactly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::check {

/// A plan and its device d's number in the whole cluster.
struct PlanOnCluster {
  const Plan* plan = nullptr;
  std::vector<std::int64_t> devices;
};

struct MoveQuestion {
  const Model* model = nullptr;
  const Cluster* cluster = nullptr;  ///< the whole one
  PlanOnCluster running, next;
  std::vector<std::int64_t> lost_nodes;
  std::vector<std::int64_t> narrowed_nodes;  ///< whose way to the network is narrower than usual
  std::vector<std::string> lost_links;       ///< "a-b": links between groups that let nothing through
};

struct MovedRange {
  std::int64_t least = 0, most = 0;
};

struct MovedBytes {
  std::int64_t needed = 0;                     ///< all that devices of the new plan will hold
  std::int64_t kept = 0;                       ///< of that, what the same devices hold now
  std::int64_t peer = 0;                       ///< what others hold
  std::int64_t lost = 0;                       ///< what nobody holds that is there; kept + peer + lost = needed
  std::int64_t most_read = 0;                  ///< the most that one device will hold
  std::map<std::string, MovedRange> links;     ///< as answers name them: "node:3 out", "node:3 in", "inside node:3",
                                               ///< "a-b"
  std::map<std::int64_t, std::int64_t> taken;  ///< by device, what it takes from other nodes
  std::map<std::int64_t, std::int64_t> taken_inside;
  std::int64_t nowhere = 0;  ///< bytes of the model that some pipeline of the new plan has nowhere
};

/// Both plans are sound by themselves (validate) and name devices that `devices` has.
MovedBytes moved_bytes(const MoveQuestion& question);

}  // namespace espalier::check
