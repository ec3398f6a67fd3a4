// SPDX-License-Identifier: Apache-2.0
// Computes fingerprints of plans, so that a search can count the different plans it simulated. A fingerprint has 64
// bits and covers everything that distinguishes plans, layer by layer. It does not depend on how a plan is cut into
// ranges, or on whether the plan is given as uniform or as layer-wise.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/split_table.h"
#include "search/layerwise.h"

namespace espalier::search {

std::uint64_t print_of(const Model& model, const LayeredConfiguration& c);
/// Returns the print of a uniform configuration under its split.
std::uint64_t print_of(const Model& model, const Configuration& c, const cost::SplitTable& split);

}  // namespace espalier::search
