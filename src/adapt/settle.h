// SPDX-License-Identifier: Apache-2.0
// Chooses the nodes of a new plan. Nodes of one class may change places without affecting its time. They are in one
// node group, and in one domain of the innermost level between nodes if there are several levels. Their devices are
// equally fast, and their paths to the network equally wide. The assignment of nodes to places decides how many bytes
// are already there. It is chosen to
//
//     maximise Σ_n kept(n, π(n)),
//     kept(n, m) = bytes that devices of place n will hold and those of node m hold, device by device.
//
// The objective is a sum over places, so the assignment of each class (solve/assignment.h) is exact. Classes of more
// than kMostAssigned nodes keep their order.
#pragma once

#include <cstdint>
#include <vector>

#include "adapt/move.h"
#include "adapt/present.h"

namespace espalier::adapt {

inline constexpr std::size_t kMostAssigned = 512;

/// Returns the class of each of these nodes.
std::vector<std::int64_t> node_classes(const Cluster& whole, const ClusterState& state, const std::vector<std::int64_t>& nodes);

/// Returns node_of of the present cluster, with nodes of a class exchanged among themselves and with `spare` ones.
/// The result minimises the bytes that `plan`, on the present cluster, moves.
Result<std::vector<std::int64_t>> settled(const MoveScene& scene, const Placed& from, const Plan& plan, const Present& present,
                                          const std::vector<std::int64_t>& spare);

}  // namespace espalier::adapt
