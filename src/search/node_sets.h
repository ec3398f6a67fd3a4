// SPDX-License-Identifier: Apache-2.0
// Enumerates the parts of a cluster that a plan may use while the rest stays idle: the first nodes of some node
// groups, in any order of the groups.
//
// A plan on a part is a plan of the whole cluster. A search that covers every part is never slower on a larger
// cluster. Its answer does not depend on the order in which the cluster file lists its groups. A part is searched
// only if its bound of all work (work_bound.h) is below the best plan.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "search/search.h"
#include "search/work_bound.h"

namespace espalier::search {

/// Selects the first `nodes` nodes of a node group.
struct GroupPart {
  std::size_t group = 0;
  std::int64_t nodes = 0;
  bool operator==(const GroupPart&) const = default;
};
/// Ranks are numbered part after part.
using NodeSet = std::vector<GroupPart>;

/// Returns the nodes as a cluster without links between groups, which suffices for rules and uniform plans. It must
/// not be used for prices.
Cluster cluster_of(const Cluster& cluster, const NodeSet& nodes);
/// Maps the places in the set to devices of the cluster.
std::vector<std::int64_t> devices_of(const Cluster& cluster, const NodeSet& nodes);
std::int64_t device_count(const Cluster& cluster, const NodeSet& nodes);
/// Returns the set of all nodes.
NodeSet all_nodes(const Cluster& cluster);
/// Maps stages that name places in the set to the devices at these places.
std::vector<Pipeline> on_devices(std::vector<Pipeline> pipelines, const std::vector<std::int64_t>& devices);

struct NodeSets {
  std::vector<NodeSet> sets;                   ///< by bound of all work, then lexicographic; groups ascend in each
  std::vector<std::int64_t> bound_ns;          ///< bound of each set
  std::int64_t unlisted_bound_ns = INT64_MAX;  ///< bound of the sets beyond kMostNodeSets
};
/// Returns the sets of `least_groups` or more groups that the job allows (search.devices) and whose bound of all work
/// is below `incumbent_ns`.
NodeSets node_sets(const Problem& problem, const WorkBound& work, std::size_t least_groups, std::int64_t incumbent_ns);

/// Holds the orders of a set's groups, beginning with that of the cluster. Groups that differ in name alone are not
/// exchanged. There are at most kMostOrders; `all` is false if more exist.
struct GroupOrders {
  std::vector<NodeSet> orders;
  bool all = true;
};
GroupOrders orders_of(const Cluster& cluster, const NodeSet& nodes);

}  // namespace espalier::search
