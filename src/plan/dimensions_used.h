// SPDX-License-Identifier: Apache-2.0
// How many dimensions of parallelism a plan uses: what an engineer has to set up, explain and debug. One each for
//   tp, cp, ep, etp, pp, vpp above 1 · sp · zero above 0 · shard below the data ranks (hybrid sharding) · recompute ·
//   a schedule other than 1f1b where pp is above 1 · operator partitions · strategies that differ between layers.
// Data parallelism, micro-batch, rank order, the kind of context parallelism and overlap switches are free.
#pragma once

#include <cstdint>

#include "espalier/plan.h"

namespace espalier {

/// Of a uniform configuration. It never falls when a dimension leaves its plainest value, so that a choice of some
/// dimensions, the others plain, bounds all configurations below it.
std::int32_t dimensions_used(const Strategy& strategy, const Schedule& schedule);
/// Of a plan: a dimension counts once if any layer uses it.
std::int32_t dimensions_used(const Plan& plan);

}  // namespace espalier
