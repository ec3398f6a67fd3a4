// SPDX-License-Identifier: Apache-2.0
// Plans that use a run of neighbouring devices of one node group as if the group were a cluster of its own.
//
// Stages lie one after the other as RankOrder numbers them, counted from the first device of the run. Where that device
// begins a domain of every level of the group's fabric but the outermost one, groups and messages cross the same levels
// as on the group's first devices. The plan then costs what it costs there. Devices behind the run do not matter. On a
// cluster of several groups all layers have one strategy but for recomputation.
#pragma once

#include <cstdint>
#include <optional>

#include "espalier/cluster.h"
#include "espalier/plan.h"

namespace espalier {

struct DeviceBlock {
  std::size_t group = 0;
  std::int64_t first = 0;  ///< device of the cluster
};

/// The block of a pipeline whose devices are all as fast as their kind; nothing where it has none.
std::optional<DeviceBlock> device_block(const Pipeline& pipeline, const Cluster& cluster);

/// The first device from which on all stages lie as RankOrder numbers them.
std::optional<std::int64_t> first_in_order(const Pipeline& pipeline);

}  // namespace espalier
