// SPDX-License-Identifier: Apache-2.0
// Defines infinity: the cost of an impossible choice, and a limit that limits nothing.
#pragma once

#include <limits>

namespace espalier::base {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace espalier::base
