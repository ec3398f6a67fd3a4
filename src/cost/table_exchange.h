// SPDX-License-Identifier: Apache-2.0
// The price of exchanging the gradient of a token table that several stages hold, wherever the stages lie. Two stages
// send each other what they have, both ways at once; three sum it in a ring. Among all pairs of stages the link over
// which that takes longest decides; it need not be the outermost.
#pragma once

#include <cstddef>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cost {

/// Returns the seconds of an exchange of `bytes` between `stages` of them, at least two, over level `level`.
double exchange_s(const std::vector<FabricLevel>& levels, int level, std::size_t stages, double bytes);

}  // namespace espalier::cost
