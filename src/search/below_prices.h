// SPDX-License-Identifier: Apache-2.0
// Factors that keep a bound below every price whose rounding it does not follow.
#pragma once

namespace espalier::search {

inline constexpr double kBelow = 1.0 - 1e-4;  ///< of seconds: prices are rounded to nanoseconds
inline constexpr double kFullRate = 1e9;      ///< bytes are multiplied by it, and the seconds divided: without latency

}  // namespace espalier::search
