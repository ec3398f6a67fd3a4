// SPDX-License-Identifier: Apache-2.0
// Where a process group lies in the fabric: how many of its members share a domain of each level.
//
// The devices 0 … N−1 are cut into blocks of E = stride·size consecutive devices; block b holds the groups {bE + j + i·stride},
// j < stride, i < size. At a level of span S a group's members fall into some domains; `members_per_level` is the smallest number
// of members in a domain that the group touches, over all groups: what reaches that domain must leave over so many devices.
// With g = gcd(E, S):
//     E | S                      size                           (every group inside one domain)
//     S | E                      max(1, ⌊S/stride⌋)             (groups begin at domain borders)
//     else, all phases occur     max(1, ⌊g/stride⌋)             (some group ends g devices into a domain)
//     else (few blocks)          the minimum over the blocks, counted
// Example: 2 nodes of 8, stride 1, size 3: blocks begin at 0, 3, 6, 9, 12; {6,7,8} has 2 and 1 members in the two nodes: 1.
// No allocation: called for every candidate of a search.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cluster {

inline constexpr int kMaxLevels = 6;

struct GroupShape {
  std::int64_t size = 1;
  int levels = 0;
  /// Innermost first, not decreasing, the last is `size`.
  std::array<std::int64_t, kMaxLevels> members_per_level{};
  bool operator==(const GroupShape&) const = default;
};

/// `devices`: N. Needs stride·size ≤ N.
GroupShape group_shape(const std::vector<FabricLevel>& levels, std::int64_t stride, std::int64_t size, std::int64_t devices);

/// Index of the lowest level whose domain holds both devices; −1 for a = b, the outermost level if none does.
int level_of_pair(const std::vector<FabricLevel>& levels, std::int64_t a, std::int64_t b);

/// Bytes/s per device and direction when `joined` members talk over a level (efficiency not applied): a mesh of direct links gives
/// a small group only the links between its members.
inline BytesPerSecond group_bandwidth(const FabricLevel& level, std::int64_t joined) {
  if (level.per_peer.count() <= 0 || joined <= 1) return level.bandwidth;
  const double links = level.per_peer.count() * static_cast<double>(joined - 1);
  return BytesPerSecond(links < level.bandwidth.count() ? links : level.bandwidth.count());
}

/// Bytes/s of one pair of devices over a level; `alone`: nobody else talks.
inline BytesPerSecond pair_bandwidth(const FabricLevel& level, bool alone) {
  const BytesPerSecond most = alone ? level.bandwidth_alone : level.bandwidth;
  return level.per_peer.count() > 0 && level.per_peer < most ? level.per_peer : most;
}

}  // namespace espalier::cluster
