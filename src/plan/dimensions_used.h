// SPDX-License-Identifier: Apache-2.0
// Counts the dimensions of parallelism that a plan uses: those that an engineer has to set up, explain and debug.
// Each of these counts once.
//
//   degrees       tp, cp, ep, etp, pp and vpp above 1
//   options       sp; zero above 0; shard below the data ranks (hybrid sharding); recompute;
//                 a schedule other than 1f1b with pp above 1
//   operators     operator partitions; strategies that differ between layers.
//
// Data parallelism, micro-batch, rank order, the kind of context parallelism and overlap switches are free.
#pragma once

#include <cstdint>

#include "espalier/plan.h"

namespace espalier {

/// Counts the dimensions of a uniform configuration. The count never falls when a dimension leaves its plainest
/// value. So a choice of some dimensions, with the others plain, bounds all configurations below it.
std::int32_t dimensions_used(const Strategy& strategy, const Schedule& schedule);
/// Counts the dimensions of a plan: a dimension counts once if any layer uses it.
std::int32_t dimensions_used(const Plan& plan);

}  // namespace espalier
