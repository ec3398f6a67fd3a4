// SPDX-License-Identifier: Apache-2.0
// Which layouts a choice uses, decided first. Internal to the layer search.
//
// Many layouts cost the same (the order of two levels inside one node), so a choice has twins, and no number of copies
// is ever forced. Once it is known which set of layouts a choice uses, it pays at least the shortest way through all of
// them, and its items compete only with items of these layouts. With metric transitions no choice pays less than that
// way, and a set whose way is as long as what a choice may cost above the lower bound needs no look, nor does any set
// that contains it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solve/layer_chain.h"

namespace espalier::solve {

struct LayoutSet {
  std::vector<std::int32_t> layouts;  ///< rising
  double way = 0;                     ///< of the shortest path that visits each once, in any order
};

/// Every set with a way below `most`, but for those inside another whose way is no longer (a choice that uses them pays
/// that way too, so it is found there); nothing when there are too many to look at one by one. Transitions must be
/// metric.
std::optional<std::vector<LayoutSet>> layout_sets(const Chain& chain, double most);

/// The shortest path that visits every layout of the chain; infinite when there are too many to tell.
double shortest_way(const Chain& chain);

}  // namespace espalier::solve
