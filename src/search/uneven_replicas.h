// SPDX-License-Identifier: Apache-2.0
// Replicas on unlike devices: one stage whose data-parallel replicas lie on several node groups, each with as many
// samples as its speed allows and, apart from that, with as much of the states that ZeRO shards as its memory allows.
// No activation leaves a replica; what the groups exchange is gradients, and under ZeRO parameters.
//
// Tried are all sets of two or more groups, tp over a power of two inside their nodes, with and without sequence
// parallelism, ZeRO 0 to 3 over all replicas, recomputation none, selective or full, and every number of samples in a
// micro-batch that divides the global batch.
//
// Samples. Replicas of a group are alike, so that a deal matters by the most that one of each takes (replica_levels.h):
// of these all that may be faster than the best plan are simulated. A step is at least m times what its passes take
// (replica_paces.h); and deals of one strategy differ in their passes alone, so that none is faster than a simulated
// one by more than m times what its own are shorter.
//
// States. Parts are equal where these fit; else each group holds as much as its memory allows, an even part where that
// is less (most_even_parts): collectives wait for who holds least (cost/scattered_stages.h). Two plans give what a
// group can hold, one with equal parts and one with others. Unequal parts may shorten the update, no more than to where
// all ranks take as long for it; by this a plan whose equal parts do not fit is left out.
//
// Strategies are looked at in the order of the time of their arithmetic with the best deal; the first that it makes
// slower than the best plan ends the phase, and what was found is the best of it. Where there was too much to look at,
// the bound is that of all work (work_bound.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/phase_outcome.h"
#include "search/search.h"

namespace espalier::search {

/// `incumbent_ns` of other phases; 0: none. The outcome counts strategies as `bounded`.
PhaseOutcome uneven_replicas(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options);

}  // namespace espalier::search
