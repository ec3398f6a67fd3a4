// SPDX-License-Identifier: Apache-2.0
// Lists the parts of a cluster on which a phase is repeated. The budgets of a phase may leave out plans on some of the
// devices. With the repeated phases, a search on one group or one node more finds what it finds without it.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/cluster.h"
#include "search/node_sets.h"
#include "search/search.h"

namespace espalier::search {

/// Holds some nodes of a cluster.
struct ClusterPart {
  NodeSet nodes;
  Cluster cluster;  ///< these nodes, with the links between their groups
};
/// Returns the sets of at least two whole groups, but not of all, whose bound of all work (work_bound.h) is below
/// `incumbent_ns`, by that bound. There are at most kMostFewerGroups. Groups that reach each other only over links of
/// groups or sites outside the set are left out. Returns none where all devices must have work, or the cluster has more
/// than kMostPipelineGroups groups.
std::vector<ClusterPart> fewer_groups(const Problem& problem, std::int64_t incumbent_ns);

/// Holds the parts that node_sets() lists and that are not whole groups, by their bound of all work.
struct NodeParts {
  std::vector<ClusterPart> parts;
  std::int64_t listed_bound_ns = INT64_MAX;  ///< no plan on one of these parts takes less
  std::int64_t rest_bound_ns = INT64_MAX;    ///< no plan on any other such part takes less
};
/// Returns at most kMostNodeParts parts whose bound is below `incumbent_ns`; none where devices differ in speed.
NodeParts node_parts(const Problem& problem, std::int64_t incumbent_ns);

}  // namespace espalier::search
