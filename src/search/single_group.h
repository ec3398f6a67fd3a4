// SPDX-License-Identifier: Apache-2.0
// Uniform plans on one node group, all other devices left out: on all of its nodes, on fewer, and on part of a node,
// each certified by the search of the uniform space (search.h) with every rank order and schedule. They are plans of
// the whole cluster, so that no answer is slower than any of them, and devices that are added never make the answer
// slower.
//
// A group's devices lie in the plan as they do in the cluster. A part is searched only if its bound of all work
// (work_bound.h) is below the best plan. A group with devices of unequal speed is searched
// as if all were as slow as the slowest, and its best plans are judged as they are; its bound is that of a group all of
// whose devices are as fast as the fastest.
#pragma once

#include <optional>
#include <vector>

#include "search/phase_outcome.h"
#include "search/search.h"

namespace espalier::search {

struct GroupAlone {
  std::optional<Candidate> best;     ///< as found on the group as a cluster of its own
  std::vector<Candidate> simulated;  ///< that fit, by time
  double space_size = 0;
};

/// `bounded` counts nodes of the uniform searches; `best` lies on the devices of the cluster.
struct SingleGroupOutcome : PhaseOutcome {
  std::vector<GroupAlone> groups;  ///< by place in the cluster, on all nodes; empty on a cluster of one group
};

/// A node group as a cluster of its own, all of its devices at the speed of the slowest.
Cluster group_alone(const Cluster& cluster, std::size_t group);
/// The first nodes of a group as a cluster of their own.
Cluster nodes_alone(const Cluster& cluster, std::size_t group, std::int64_t nodes);
/// A uniform plan of a group on the devices that it has in the cluster.
Plan in_cluster(const Problem& problem, const Cluster& alone, std::int64_t first_device, const Configuration& found);
/// The uniform part of a space.
SearchSpace space_alone(SearchSpace space);

/// `incumbent_ns` of other phases; 0: none. `whole`: groups as they are, and their parts; false: parts alone, where the
/// uniform search has the whole of the only group.
SingleGroupOutcome single_group(const Problem& problem, Evaluator& evaluator, const Options& options,
                                std::int64_t incumbent_ns = 0, bool whole = true);

}  // namespace espalier::search
