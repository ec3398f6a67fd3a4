// SPDX-License-Identifier: Apache-2.0
// Converts times of documents: real seconds in the text, whole nanoseconds in memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/document.h"
#include "espalier/units.h"

namespace espalier::report {

inline constexpr double kLongestSeconds = 1e9;  ///< in nanoseconds they are integers

inline std::int64_t to_ns(double seconds) { return round_ns(Seconds(seconds)).count(); }
/// Reads seconds as nanoseconds; 0 where the key is absent.
inline std::int64_t read_ns(base::Reader& r, std::string_view key) {
  return to_ns(r.optional_real(key, -kLongestSeconds, kLongestSeconds, 0));
}

}  // namespace espalier::report
