// SPDX-License-Identifier: Apache-2.0
// Derives what must move between devices when one plan replaces another, from the two plans alone (docs/adapt.md,
// "What a move costs"). Parameters and optimizer states with master weights move; gradients are empty between steps.
//
// Every layer is cut wherever some rank's part of it begins or ends, before or after. For each piece the check finds
// the devices that hold it now and remain, and those that will hold it. A new holder takes the piece from the nearest
// holder that it has a path to. This is one of its node, else one of its node group unless all holders there have
// narrowed paths, else any. Any of several such holders may send. The bytes that a link carries are therefore bounded
// from both sides; the bytes that a node receives are exact.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::check {

/// Holds a plan; devices[d] is the number of its device d in the whole cluster.
struct PlanOnCluster {
  const Plan* plan = nullptr;
  std::vector<std::int64_t> devices;
};

struct MoveQuestion {
  const Model* model = nullptr;
  const Cluster* cluster = nullptr;  ///< the whole one
  PlanOnCluster running, next;
  std::vector<std::int64_t> lost_nodes;
  std::vector<std::int64_t> narrowed_nodes;  ///< nodes whose path to the network is narrower than usual
  std::vector<std::string> lost_links;       ///< "a-b": links between groups that carry nothing
};

struct MovedRange {
  std::int64_t least = 0, most = 0;
};

struct MovedBytes {
  std::int64_t needed = 0;     ///< all bytes that devices of the new plan will hold
  std::int64_t kept = 0;       ///< bytes that the same devices hold now
  std::int64_t peer = 0;       ///< bytes that other devices hold
  std::int64_t lost = 0;       ///< bytes that no remaining device holds; kept + peer + lost = needed
  std::int64_t most_read = 0;  ///< the most that one device will hold
  /// Holds the bytes by link, named as in answers: "node:3 out", "node:3 in", "inside node:3", "a-b".
  std::map<std::string, MovedRange> links;
  std::map<std::int64_t, std::int64_t> taken;  ///< by device, from other nodes
  std::map<std::int64_t, std::int64_t> taken_inside;
  std::int64_t nowhere = 0;  ///< bytes of the model that some pipeline of the new plan lacks
};

/// Both plans must pass validate on their own and use only devices listed in `devices`.
MovedBytes moved_bytes(const MoveQuestion& question);

}  // namespace espalier::check
