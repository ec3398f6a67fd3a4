// SPDX-License-Identifier: Apache-2.0
// Where a process group lies in the fabric.
//
// A group is inner · outer ranks: device = base + i·inner_stride + j·outer_stride, i < inner, j < outer. At a fabric
// level of span S (devices of one domain) `members[k]` ranks of the group share a domain. If the group's extent
// divides the span, or the span divides it, that number is exact. Otherwise groups straddle domains and the worst one
// counts: gcd(extent, S)/stride ≥ 1.
//
// Where a plan lists its devices in an order of its own (plan/listed_devices.h), members are counted domain by domain
// in every group of the list. The domain that holds the fewest members of a group decides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "plan/listed_devices.h"

namespace espalier::cost {

inline constexpr int kMaxLevels = 6;

struct Group {
  std::int64_t size = 1;
  int levels = 0;
  /// Holds the number of ranks of the group in one domain of level k; the last equals size.
  std::array<std::int64_t, kMaxLevels> members{};
};

Group place_group(const std::vector<FabricLevel>& levels, std::int64_t inner, std::int64_t inner_stride, std::int64_t outer = 1,
                  std::int64_t outer_stride = 0);

/// Holds the fabric, and where the ranks of a plan lie in it: as RankOrder says, or on the devices that the stages
/// list.
struct Placing {
  const std::vector<FabricLevel>& levels;
  const StageDevices* listed;
  Placing(const std::vector<FabricLevel>& fabric, const StageDevices* devices = nullptr) : levels(fabric), listed(devices) {}
};

/// Returns the group of `count` neighbouring ranks of a stage.
Group run_group(const Placing& at, std::int64_t count);
/// Return the groups of a strategy. Devices follow RankOrder, innermost first; pp = stages.
Group tp_group(const Placing& at, const Strategy& s);
Group cp_group(const Placing& at, const Strategy& s);
/// Returns the group of all ranks with the same dense weights (dp·cp, ·tp with Ulysses), or of the innermost `ranks`
/// of them.
Group data_group(const Placing& at, const Strategy& s, std::int32_t stages, std::int64_t ranks);
/// Returns the group of the ranks left after `shard`: replicas of one shard (hybrid sharding).
Group replica_group(const Placing& at, const Strategy& s, std::int32_t stages);
/// Return groups of the expert grid of a stage: etp innermost, then ep, then the expert replicas.
Group ep_group(const Placing& at, const Strategy& s, std::int32_t stages);
Group expert_data_group(const Placing& at, const Strategy& s, std::int32_t stages);

/// Returns the lowest level over which stages `from` and `to` communicate, for the worst pair.
int stage_link_level(const Placing& at, const Strategy& s, std::int32_t stages, std::int32_t from, std::int32_t to);
/// Returns whether the group has ranks outside the `node_levels` innermost levels.
inline bool crosses_nodes(const Group& group, int node_levels) {
  return group.size > 1 && node_levels > 0 && group.members[static_cast<std::size_t>(node_levels - 1)] < group.size;
}
/// Returns whether any two neighbouring stages communicate over a level outside the `node_levels` innermost ones.
bool pipeline_crosses(const Placing& at, const Strategy& s, std::int32_t stages, int node_levels);

}  // namespace espalier::cost
