// SPDX-License-Identifier: Apache-2.0
// Where a new plan goes. Nodes of one class may change places without any change of its time: those of one node group,
// in one domain of the innermost level between nodes where there are several levels, whose devices are equally fast and
// whose way to the network is equally wide. Which of them takes which place decides how many bytes lie there already.
//
//     maximise Σ_n kept(n, π(n)),  kept(n, m) = bytes that the devices of place n will hold and those of node m hold,
//     device by device
//
// is a sum over places, so that the assignment of each class (solve/assignment.h) is exact. Classes of more than
// kMostAssigned nodes keep their order.
#pragma once

#include <cstdint>
#include <vector>

#include "adapt/move.h"
#include "adapt/present.h"

namespace espalier::adapt {

inline constexpr std::size_t kMostAssigned = 512;

/// The class that each of these nodes belongs to.
std::vector<std::int64_t> node_classes(const Cluster& whole, const ClusterState& state, const std::vector<std::int64_t>& nodes);

/// node_of of the present cluster, nodes of a class exchanged with each other and with `spare` ones so that `plan`, on
/// the present cluster, moves least.
Result<std::vector<std::int64_t>> settled(const MoveScene& scene, const Placed& from, const Plan& plan, const Present& present,
                                          const std::vector<std::int64_t>& spare);

}  // namespace espalier::adapt
