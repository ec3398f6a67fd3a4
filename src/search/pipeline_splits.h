// SPDX-License-Identifier: Apache-2.0
// What pipelines beside each other take at least, however the samples of a step are split among them (unlike_pipelines.h).
//
// A plan of several pipelines takes no less than any of its pipelines alone with its own samples: beside them it has the meeting of gradients. And one
// configuration takes no less with more micro-batches: without the last one of each stage, what is left of its list is the list of one
// micro-batch fewer, so that the longest path through it is no longer. (Of packed samples of unlike length each micro-batch takes less where
// there are more: of those nothing is known.) Let A_g(n) be the least time of the uniform plans of group g alone with n samples,
// and h a part of the batch B such that every divisor of B divides h or is a multiple of it. A pipeline of group g that ends in T, on micro-batches
// that divide B, has fewer than (j + 1)·h samples, j being the largest number with A_g(j·h) ≤ T: of its micro-batches s either s divides h, and it
// would have taken A_g((j + 1)·h) or more to come to (j + 1)·h; or h divides s, and its samples are a multiple of h. Hence no plan of several pipelines
// takes less than the smallest T with
//     Σ_g ((j_g(T) + 1)·h − 1) ≥ B.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"

namespace espalier::search {

inline constexpr std::int64_t kSplitSteps = 32;  ///< B / h at most

/// The bound above, at most `best_ns`; 0: not known. Groups are searched as far as `best_ns`.
std::int64_t splits_bound_ns(const Problem& problem, Evaluator& evaluator, std::int64_t best_ns, const Options& options);

/// The same from a table: least[g][j − 1] = A_g(j·h), or anything not below `best_ns` where it is not less; j·h < batch.
std::int64_t splits_bound_ns(const std::vector<std::vector<std::int64_t>>& least, std::int64_t step, std::int64_t batch,
                             std::int64_t best_ns);

/// h; 0: the batch has none but itself.
std::int64_t split_step(std::int64_t batch);

}  // namespace espalier::search
