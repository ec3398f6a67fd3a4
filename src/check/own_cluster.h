// SPDX-License-Identifier: Apache-2.0
// Checks a plan on neighbouring devices of one node group as a plan of the cluster that these devices form by
// themselves. This applies if
//   - the plan has one pipeline of equal replicas, and all layers have one rank order; where the cluster has several
//     groups, one strategy apart from recomputation;
//   - its devices are whole consecutive nodes of one group, or the first devices of one node, and begin a domain of
//     every level of the group except the outermost one;
//   - counted from the first of them, every stage holds the devices that its order assigns to it;
//   - none of them is faster or slower than its kind.
// The check ignores devices of the cluster that the plan leaves out.
#pragma once

#include <cstdint>
#include <optional>

#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier::check {

struct OwnCluster {
  Cluster cluster;  ///< the nodes that the plan uses
  Plan plan;        ///< on devices 0 … of that cluster
  std::int64_t first = 0;
};
/// Returns nothing if the plan uses the whole cluster, or is no such plan. The structure of the plan need not be
/// sound.
std::optional<OwnCluster> own_cluster(const Plan& plan, const Cluster& cluster);
/// Returns the program with devices counted from `first`.
Program counted_from(const Program& program, std::int64_t first);

}  // namespace espalier::check
