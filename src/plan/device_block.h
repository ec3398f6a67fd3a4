// SPDX-License-Identifier: Apache-2.0
// Finds plans that use a run of neighbouring devices of one node group as if the group were a separate cluster.
//
// Stages follow each other as RankOrder numbers them, counted from the first device of the run. That device must
// begin a domain of every level of the group's fabric except the outermost one. Then groups and messages cross the
// same levels as on the group's first devices, and the plan has the same costs. Devices behind the run do not matter.
// On a cluster of several groups all layers have one strategy, apart from recomputation.
#pragma once

#include <cstdint>
#include <optional>

#include "espalier/cluster.h"
#include "espalier/plan.h"

namespace espalier {

struct DeviceBlock {
  std::size_t group = 0;
  std::int64_t first = 0;  ///< number of the device in the cluster
};

/// Returns the block of a pipeline whose devices are all as fast as their kind; nullopt if it has none.
std::optional<DeviceBlock> device_block(const Pipeline& pipeline, const Cluster& cluster);

/// Returns the first device if all stages are numbered from it as RankOrder numbers them.
std::optional<std::int64_t> first_in_order(const Pipeline& pipeline);

}  // namespace espalier
