// SPDX-License-Identifier: Apache-2.0
// Cost equations compute in real seconds; Costs and everything after them in whole nanoseconds. This is the one place
// where the one becomes the other.
#pragma once

#include <cstdint>

#include "espalier/units.h"

namespace espalier::cost {

/// The nearest whole nanosecond of real seconds, ties away from zero.
inline std::int64_t round_ns(double seconds) { return espalier::round_ns(Seconds(seconds)).count(); }
inline double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace espalier::cost
