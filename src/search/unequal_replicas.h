// SPDX-License-Identifier: Apache-2.0
// Replicas on unlike devices: one stage whose data-parallel replicas lie on several node groups, each with as many samples as its speed allows and,
// apart from that, with as much of the states that ZeRO shards as its memory allows. No activation leaves a replica; what the groups
// exchange is gradients, and under ZeRO parameters.
//
// Tried are all sets of two or more groups, tp over a power of two inside their nodes, with and without sequence parallelism, ZeRO 0 to 3 over all replicas,
// recomputation none, selective or full, and every number of samples in a micro-batch that divides the global batch.
//
// Samples. A replica on group g takes about b·t_g for b samples, t_g from its own kind's cost of the layers. They are dealt one by one, each to the
// replica that would then end first: no other deal has an earlier last end, since a deal with an earlier end would have given one replica fewer
// than this one did, and some other one more.
//
// States. Of a plan with equal parts the room that each group's ranks lack, and of one with other parts what a larger part costs (both by
// simulation), give how large a part each group can hold; if these add up to all, parts are in proportion to them.
//
// Plans are judged in the order of the time of their arithmetic, those that it makes slower than the best are left out, and the best improved by moving
// samples between groups.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/device_groups.h"
#include "search/search.h"

namespace espalier::search {

inline constexpr std::int64_t kMostReplicaPlans = 2'000;  ///< simulated
inline constexpr std::size_t kMostReplicaGroups = 5;      ///< with more node groups the phase is left out

struct UnequalReplicasOutcome {
  std::optional<GroupedCandidate> best;
  std::int64_t considered = 0, simulations = 0, without_room = 0;
  bool complete = true, interrupted = false;
  std::int64_t lower_bound_ns = 0;  ///< of all work (unlike_pipelines.h)
};

/// `incumbent_ns` of other phases; 0: none.
UnequalReplicasOutcome unequal_replicas(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns,
                                        const Options& options);

/// Samples of each replica when `samples` are dealt to replicas that take seconds[r] for each: at least one each, none if there are fewer.
std::vector<std::int64_t> deal_to_replicas(const std::vector<double>& seconds, std::int64_t samples);

}  // namespace espalier::search
