// SPDX-License-Identifier: Apache-2.0
// Cost equations compute in real seconds; Costs and everything after them use whole nanoseconds. This is the only
// place that converts between the two.
#pragma once

#include <cstdint>

#include "espalier/units.h"

namespace espalier::cost {

/// Returns the nearest whole nanosecond of real seconds, ties away from zero.
inline std::int64_t round_ns(double seconds) { return espalier::round_ns(Seconds(seconds)).count(); }
inline double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace espalier::cost
