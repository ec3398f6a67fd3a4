// SPDX-License-Identifier: Apache-2.0
// Searches uniform plans across node groups: one strategy on all devices of two or more groups, with every rank
// order, schedule and sharding of the uniform space (space.h). Stages may span groups; a rank waits for the slowest
// of its group. The phase covers every part of the cluster (node_sets.h) in every order of its groups.
//
// The tree of each (part, order) has three levels. All bounds use the prices of the plan on its actual devices:
//
// - layer choice: the bound is m/p · Σ_ℓ min_i c_iℓ, where c_iℓ is the compute of layer ℓ for a micro-batch on the
//   slowest group of stage i.
// - schedule choice: the pipeline bound (cost/bound.h) of the plan without ZeRO and recomputation. Collectives at the
//   end of the step and the update are free. Every other choice below adds to these durations.
// - sharding, overlap: the pipeline bound of the configuration itself. Recomputation only adds to it.
//
// Choices are taken by rising bound and compared with the best plan; the remaining ones are simulated. A limit on
// prices ends the phase, and its bound is then the least bound of the remaining choices.
#pragma once

#include <cstdint>
#include <optional>

#include "search/phase_outcome.h"
#include "search/search.h"

namespace espalier::search {

/// Runs the phase; requires several node groups. `incumbent_ns` is the best time of other phases; 0: none. The outcome
/// counts choices of the tree as `bounded`.
PhaseOutcome whole_cluster(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options);

}  // namespace espalier::search
