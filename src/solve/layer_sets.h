// SPDX-License-Identifier: Apache-2.0
// Enumerates which layouts a choice uses, which is decided first. Internal to the layer search.
//
// Many layouts cost the same (the order of two levels inside one node). A choice then has twins, and no number of
// copies is ever forced. If the set of layouts that a choice uses is known, the choice pays at least the shortest way
// through all of them. Its items then compete only with items of these layouts. With metric transitions no choice
// pays less than that way. A set can be skipped if its way is as long as the cost that a choice may have above the
// lower bound. So can any set that contains it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solve/layer_chain.h"

namespace espalier::solve {

struct LayoutSet {
  std::vector<std::int32_t> layouts;  ///< rising
  double way = 0;                     ///< length of the shortest path that visits each once, in any order
};

/// Returns every set with a way below `most`, except those inside another whose way is no longer. (A choice with
/// those layouts pays that way as well, so it is found there.) Returns nullopt when there are too many to enumerate.
/// Transitions must be metric.
std::optional<std::vector<LayoutSet>> layout_sets(const Chain& chain, double most);

/// Returns the length of the shortest path that visits every layout of the chain; infinity when there are too many
/// layouts to compute it.
double shortest_way(const Chain& chain);

}  // namespace espalier::solve
