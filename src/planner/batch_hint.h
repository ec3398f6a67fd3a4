// SPDX-License-Identifier: Apache-2.0
// Where the divisors of the global batch forbid a faster plan: the next larger batch that allows it, and what it gains
// per sample.
//
// Asked only where some degree that divides the devices does not divide the batch. For each multiple B' of such a
// degree, B < B' ≤ 2·B, by
// size: is there a plan of B' that the divisors of B forbid and that takes at most (1 − 1 %) of what the plan of today
// would take for B'?
//     today(B') = fixed + (T − fixed) · B'/B        T: time of the best uniform plan; fixed: its pipeline bubble and
//                                                   end of step
// so that what any plan gains by a larger step is no gain. The first one is the hint.
#pragma once

#include <optional>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

/// Batches worth asking for, ascending.
std::vector<std::int64_t> batches_to_try(std::int64_t devices, std::int64_t global_batch);

/// `room`: the job on the memory that is searched. Nothing for spaces above kLargestHintSpace configurations, where
/// each question would cost as much as the search.
inline constexpr double kLargestHintSpace = 5e6;
std::optional<BatchHint> batch_hint(const Job& room, const EngineModel& engine, search::Evaluator& evaluator, search::Options how,
                                    const search::Outcome& found, std::int64_t fixed_ns);

}  // namespace espalier::planner
