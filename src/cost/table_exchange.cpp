// SPDX-License-Identifier: Apache-2.0
#include "cost/table_exchange.h"

#include "cost/collective.h"

namespace espalier::cost {

double exchange_s(const std::vector<FabricLevel>& levels, int level, std::size_t stages, double bytes) {
  if (stages == 2) return point_to_point_s(levels, level, bytes);
  Group ring;
  ring.size = static_cast<std::int64_t>(stages);
  ring.levels = static_cast<int>(levels.size());
  for (int k = 0; k < ring.levels; ++k) ring.members[static_cast<std::size_t>(k)] = k < level ? 1 : ring.size;
  return all_reduce_s(levels, ring, bytes);
}

}  // namespace espalier::cost
