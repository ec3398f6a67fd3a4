// SPDX-License-Identifier: Apache-2.0
// Factors that keep a bound below every price whose rounding it does not reproduce.
#pragma once

namespace espalier::search {

inline constexpr double kBelow = 1.0 - 1e-4;  ///< factor for seconds, as prices are rounded to nanoseconds
/// Bytes are multiplied by it and the seconds divided, which removes the latency.
inline constexpr double kFullRate = 1e9;

}  // namespace espalier::search
