// SPDX-License-Identifier: Apache-2.0
// Searches replicas on heterogeneous devices: one stage whose data-parallel replicas lie on several node groups. Each
// replica has as many samples as its speed allows. Independently, it holds as much of the states that ZeRO shards as
// its memory allows. No activation leaves a replica; the groups exchange gradients, and under ZeRO parameters.
//
// The search tries all sets of two or more groups, and tp over a power of two inside their nodes, with and without
// sequence parallelism. It covers ZeRO 0 to 3 over all replicas, recomputation none, selective or full, and every
// number of samples per micro-batch that divides the global batch.
//
// Samples: replicas of a group are alike, so only the level of each group matters (replica_levels.h). All levels that
// may be faster than the best plan are simulated. A step takes at least m times its passes (replica_paces.h). Deals
// of one strategy differ in their passes alone. So a deal can beat a simulated one by at most m times the difference
// of their passes.
//
// States: parts are equal where these fit. Otherwise each group holds as much as its memory allows, or an even part
// where that is less (most_even_parts), because collectives wait for the rank with the least. Two plans show how much
// a group can hold, one with equal parts and one with others (cost/scattered_stages.h). Unequal parts can shorten the
// update at most to the point where all ranks take equally long for it. This bound drops plans whose equal parts do
// not fit.
//
// Strategies are searched in the order of the time of their arithmetic with the best deal. The first whose time
// exceeds the best plan ends the phase, and the best plan found is the best of the phase. Where a limit ended the
// phase, the bound is that of all work (work_bound.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/phase_outcome.h"
#include "search/search.h"

namespace espalier::search {

/// Runs the phase. `incumbent_ns` is the best time of other phases; 0: none. The outcome counts strategies as
/// `bounded`.
PhaseOutcome uneven_replicas(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options);

}  // namespace espalier::search
