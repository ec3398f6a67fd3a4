// SPDX-License-Identifier: Apache-2.0
// A plan on neighbouring devices of one node group is checked as a plan of the cluster that these devices are by
// themselves. It is one where
//   - it has one pipeline of equal replicas, and all layers have one rank order; where the cluster has several groups,
//     one strategy but for recomputation;
//   - its devices are a run of whole nodes of one group, or the first devices of one node, that begins a domain of
//     every level of the group
//     but the outermost one;
//   - counted from the first of them, every stage holds the devices that its order numbers;
//   - none of them is faster or slower than its kind.
// Devices of the cluster that the plan leaves out are not part of the check.
#pragma once

#include <cstdint>
#include <optional>

#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier::check {

struct OwnCluster {
  Cluster cluster;  ///< the nodes that the plan uses
  Plan plan;        ///< on devices 0 … of it
  std::int64_t first = 0;
};
/// Nothing where the plan uses the whole cluster, or is no such plan. The structure of the plan need not be sound.
std::optional<OwnCluster> own_cluster(const Plan& plan, const Cluster& cluster);
/// The program with devices counted from `first`.
Program counted_from(const Program& program, std::int64_t first);

}  // namespace espalier::check
