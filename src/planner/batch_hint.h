// SPDX-License-Identifier: Apache-2.0
// Suggests a larger global batch if the divisors of the present one forbid a faster plan, with the gain per sample.
//
// The question arises only if some degree that divides the devices does not divide the batch. The search tries each
// multiple B' of such a degree with B < B' ≤ 2·B, in ascending order. It looks for a plan of B' that the divisors of
// B forbid and that takes at most (1 − 1 %) of the time that the present plan would take for B':
//
//     today(B') = fixed + (T − fixed) · B'/B        T: time of the best uniform plan
//                                                   fixed: its pipeline bubble and end of step.
//
// So a gain that any plan has from a larger step does not count. The first such batch is the hint.
#pragma once

#include <optional>

#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/search.h"

namespace espalier::planner {

/// Returns the batches worth trying, in ascending order.
std::vector<std::int64_t> batches_to_try(std::int64_t devices, std::int64_t global_batch);

/// Returns the hint; nullopt for spaces above kLargestHintSpace configurations, where each batch would cost as much
/// as the search. `room` is the job on the memory that is searched.
inline constexpr double kLargestHintSpace = 5e6;
std::optional<BatchHint> batch_hint(const Job& room, const EngineModel& engine, search::Evaluator& evaluator, search::Options how,
                                    const search::Outcome& found, std::int64_t fixed_ns);

}  // namespace espalier::planner
