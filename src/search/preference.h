// SPDX-License-Identifier: Apache-2.0
// Prefers simplicity to speed: among the configurations that take at most `slowest_ns`, fewest dimensions first, then
// time. The branch and bound needs no change for it, since the rank of a choice is a lower bound of all ranks below
// it. Neither the time bound nor the number of dimensions used falls as more dimensions are chosen.
//
//   rank = dimensions used · (slowest_ns + 1) + time;   time > slowest_ns: no answer (INT64_MAX)
#pragma once

#include <cstdint>

#include "plan/dimensions_used.h"
#include "search/space.h"

namespace espalier::search {

struct Preference {
  std::int64_t slowest_ns = 0;  ///< at most 2^58: with 12 dimensions the rank stays in 64 bits

  [[nodiscard]] std::int64_t rank(const Configuration& c, std::int64_t ns) const {
    if (ns > slowest_ns) return INT64_MAX;
    return dimensions_used(c.strategy, c.schedule) * (slowest_ns + 1) + ns;
  }
};

}  // namespace espalier::search
