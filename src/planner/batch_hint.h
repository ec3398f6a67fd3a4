// SPDX-License-Identifier: Apache-2.0
// Where the divisors of the global batch forbid a faster plan: the next larger batch that allows it, and what it gains per sample.
//
// Asked only where some degree that divides the devices does not divide the batch. For each multiple B' of such a degree, B < B' ≤ 2·B, by
// size: is there a plan of B' with time/B' ≤ (1 − 1 %) · time/B that the divisors of B forbid? The first one is the hint. A plan that
// B allows as well is none: what it gains comes from a larger step, not from divisors.
#pragma once

#include <optional>

#include "espalier/planner.h"
#include "plan/engine.h"
#include "search/search.h"

namespace espalier {

/// Batches worth asking for, ascending.
std::vector<std::int64_t> batches_to_try(std::int64_t devices, std::int64_t global_batch);

/// `room`: the job on the memory that is searched. Nothing for spaces above kLargestHintSpace configurations, where each question would
/// cost as much as the search.
inline constexpr double kLargestHintSpace = 5e6;
std::optional<BatchHint> batch_hint(const Job& room, const EngineModel& engine, search::Evaluator& evaluator, search::Options how,
                                    const search::Outcome& found);

}  // namespace espalier
