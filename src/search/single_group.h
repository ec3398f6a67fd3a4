// SPDX-License-Identifier: Apache-2.0
// Searches uniform plans on one node group, with all other devices left out. They lie on all of its nodes, on fewer,
// or on part of a node. The search of the uniform space (search.h) certifies each, with every rank order and
// schedule. These are plans of the whole cluster, so no answer is slower than any of them, and added devices never
// make the answer slower.
//
// The plan keeps the order of a group's devices in the cluster. A part is searched only if its bound of all work
// (work_bound.h) is below the best plan. A group with devices of unequal speed is searched as if all were as slow as
// the slowest. Its best plans are then judged with the real speeds. Its bound is that of a group all of whose devices
// are as fast as the fastest.
#pragma once

#include <optional>
#include <vector>

#include "search/phase_outcome.h"
#include "search/search.h"

namespace espalier::search {

struct GroupAlone {
  std::optional<Candidate> best;     ///< as found on the group as a cluster of its own
  std::vector<Candidate> simulated;  ///< plans that fit, by time
  double space_size = 0;
};

/// Holds the outcome of the phase. `bounded` counts nodes of the uniform searches, and `best` lies on the devices of the
/// cluster.
struct SingleGroupOutcome : PhaseOutcome {
  std::vector<GroupAlone> groups;  ///< by place in the cluster, on all nodes; empty on a cluster of one group
};

/// Returns a node group as a cluster of its own, with all devices at the speed of the slowest.
Cluster group_alone(const Cluster& cluster, std::size_t group);
/// Returns the first nodes of a group as a cluster of their own.
Cluster nodes_alone(const Cluster& cluster, std::size_t group, std::int64_t nodes);
/// Maps a uniform plan of a group to the devices of the group in the cluster.
Pipeline in_cluster(const Problem& problem, std::int64_t first_device, const Configuration& found);
/// Returns the uniform part of a space.
SearchSpace space_alone(SearchSpace space);

/// Runs the phase. `incumbent_ns` is the best time of other phases; 0: none. `whole` searches whole groups and their
/// parts. Otherwise only parts are searched, where the uniform search covers the whole of the only group.
SingleGroupOutcome single_group(const Problem& problem, Evaluator& evaluator, const Options& options,
                                std::int64_t incumbent_ns = 0, bool whole = true);

}  // namespace espalier::search
