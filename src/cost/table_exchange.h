// SPDX-License-Identifier: Apache-2.0
// The gradient of a token table that several stages hold: one price, wherever the stages lie. Two stages send each
// other what they have, both ways at once; three sum it in a ring. Of all pairs of them the link decides over which
// that takes longest, which need not be the outermost.
#pragma once

#include <cstddef>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cost {

/// Seconds of an exchange of `bytes` between `stages` of them, at least two, over level `level`.
double exchange_s(const std::vector<FabricLevel>& levels, int level, std::size_t stages, double bytes);

}  // namespace espalier::cost
