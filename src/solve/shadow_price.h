// SPDX-License-Identifier: Apache-2.0
// Computes the worth of a byte of a stage's memory to its layers.
#pragma once

#include <cstdint>

#include "solve/layer_search.h"

namespace espalier::solve {

/// Returns the multiplier of the memory at which the relaxed layer problem fills its capacity (layer_bound.h). Its
/// unit is that of the objective per byte. It is 0 where memory does not bind, or where nothing fits.
double shadow_price(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity);

/// Returns the cost of an option at such a price, with `in_flight` micro-batches held.
inline double priced_at(const LayerOption& o, const LayerObjective& objective, double price, std::int32_t in_flight) {
  return objective.steady_weight * o.steady + objective.sync_weight * o.sync +
         price * static_cast<double>(o.states + in_flight * o.saved);
}

}  // namespace espalier::solve
