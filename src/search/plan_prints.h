// SPDX-License-Identifier: Apache-2.0
// Fingerprints of plans, so that a search can say how many different ones it simulated: 64 bits of everything that
// tells plans apart, layer by layer. However a plan is cut into ranges, and whether it was met as uniform or as
// layer-wise, its print is the same.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/split_table.h"
#include "search/layerwise.h"

namespace espalier::search {

std::uint64_t print_of(const Model& model, const LayeredConfiguration& c);
/// Of a uniform configuration, under its split.
std::uint64_t print_of(const Model& model, const Configuration& c, const cost::SplitTable& split);

}  // namespace espalier::search
