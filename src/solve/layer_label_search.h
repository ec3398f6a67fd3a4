// SPDX-License-Identifier: Apache-2.0
// Finds the cheapest choice by labels, from the last layer of a chain to its first. Internal to the layer search.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_bound.h"
#include "solve/layer_completion.h"

namespace espalier::solve {

/// Returns the option of every layer in the cheapest choice of the scope; empty when there is none. A cheaper choice
/// outside the scope's `way` may be returned instead.
std::vector<std::int32_t> cheapest(const Chain& chain, const Multipliers& multipliers, const Scope& scope);

}  // namespace espalier::solve
