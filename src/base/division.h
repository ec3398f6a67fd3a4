// SPDX-License-Identifier: Apache-2.0
// Divides counts and rounds up. Both arguments are at least 0, the divisor at least 1.
#pragma once

#include <cstdint>

namespace espalier::base {

/// Returns ⌈a / b⌉.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
/// Returns the least multiple of b that is at least a.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace espalier::base

namespace espalier {
using base::ceil_div;
using base::round_up;
}  // namespace espalier
