// SPDX-License-Identifier: Apache-2.0
// Uniform plans on one node group alone, all other devices left out: of a cluster of several groups the best one of each, certified by the search of
// the uniform space (search.h) with all schedules that it knows. They are plans of the whole cluster, so that no answer is slower than any of them.
//
// A group's devices lie in the plan as they do in the cluster, in the order tp-cp-dp-pp; a group with a device that is slower than its kind is searched
// as if all were as slow, which is how fast lockstep is.
#pragma once

#include <optional>
#include <vector>

#include "search/device_groups.h"
#include "search/search.h"

namespace espalier::search {

struct GroupAlone {
  std::optional<Candidate> best;  ///< as found on the group as a cluster of its own
  double space_size = 0;
};

struct EachGroupOutcome {
  std::vector<GroupAlone> groups;        ///< by place in the cluster
  std::optional<GroupedCandidate> best;  ///< of all, on the devices of the cluster
  std::int64_t bounded = 0, simulations = 0;
  bool complete = true, interrupted = false;
  std::int64_t lower_bound_ns = 0;  ///< no plan of the phase takes less; INT64_MAX: it has none
};

/// A node group as a cluster of its own, all of its devices at the speed of the slowest.
Cluster group_alone(const Cluster& cluster, std::size_t group);
/// The uniform part of a space, with devices in the order tp-cp-dp-pp.
SearchSpace space_alone(SearchSpace space);

EachGroupOutcome each_group(const Problem& problem, Evaluator& evaluator, const Options& options);

}  // namespace espalier::search
