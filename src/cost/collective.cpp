// SPDX-License-Identifier: Apache-2.0
#include "cost/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace espalier::cost {
namespace {

constexpr double kTreeBandwidth = 0.85;

/// β of a level for a group with `peers` other members there: direct links (mesh) are limited by the pairs in use.
double reachable(const FabricLevel& level, std::int64_t peers = INT64_MAX) {
  double bandwidth = level.bandwidth.count();
  if (level.per_peer.count() > 0) bandwidth = std::min(bandwidth, static_cast<double>(peers) * level.per_peer.count());
  return bandwidth * level.efficiency;
}

/// ⌈log2 n⌉ for n ≥ 1.
int log2_ceil(std::int64_t n) { return n <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1))); }

struct Path {
  double bandwidth = std::numeric_limits<double>::infinity();  ///< B, bytes/s
  double ring_latency = 0, tree_latency = 0;                   ///< seconds
  int crossed = 0;
  bool in_network = false;
};

Path path_of(const std::vector<FabricLevel>& levels, const Group& group) {
  Path path;
  std::int64_t below = 1;
  for (int k = 0; k < group.levels; ++k) {
    const auto& level = levels[static_cast<std::size_t>(k)];
    const std::int64_t here = group.members[static_cast<std::size_t>(k)];
    if (here <= below) continue;
    const std::int64_t joined = (here + below - 1) / below;
    path.bandwidth = std::min(path.bandwidth, static_cast<double>(below) * reachable(level, joined - 1));
    path.ring_latency += static_cast<double>(joined - 1) * level.latency.count();
    path.tree_latency += 2.0 * log2_ceil(joined) * level.latency.count();
    path.in_network = path.crossed == 0 && level.in_network_reduction;
    ++path.crossed;
    below = here;
  }
  return path;
}

double gather_over(const Path& path, const Group& group, double bytes) {
  const double moved = bytes * static_cast<double>(group.size - 1) / static_cast<double>(group.size);
  return std::min(moved / path.bandwidth + path.ring_latency, moved / (kTreeBandwidth * path.bandwidth) + path.tree_latency);
}

}  // namespace

double all_gather_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  return group.size <= 1 ? 0.0 : gather_over(path_of(levels, group), group, bytes);
}

double reduce_scatter_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  return all_gather_s(levels, group, bytes);
}

double all_reduce_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  const Path path = path_of(levels, group);
  const double two_phases = 2.0 * gather_over(path, group, bytes);
  if (!(path.in_network && path.crossed == 1)) return two_phases;
  return std::min(two_phases, bytes / path.bandwidth + path.tree_latency / std::max(1, log2_ceil(group.size)));
}

double all_to_all_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  double slowest = 0, latency = 0;
  std::int64_t below = 1;
  for (int k = 0; k < group.levels; ++k) {
    const auto& level = levels[static_cast<std::size_t>(k)];
    const std::int64_t here = group.members[static_cast<std::size_t>(k)];
    if (here <= below) continue;
    const double leaving = bytes * static_cast<double>(group.size - below) / static_cast<double>(group.size);
    slowest = std::max(slowest, leaving / reachable(level, here - 1));
    latency += log2_ceil((here + below - 1) / below) * level.latency.count();
    below = here;
  }
  return slowest + latency;
}

double point_to_point_s(const std::vector<FabricLevel>& levels, int level, double bytes) {
  if (levels.empty() || level < 0) return 0.0;
  const auto& link = levels[static_cast<std::size_t>(level)];
  return link.latency.count() + bytes / reachable(link, 1);
}

double ring_step_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  int top = 0;
  std::int64_t below = 1;
  for (int k = 0; k < group.levels; ++k)
    if (group.members[static_cast<std::size_t>(k)] > below) top = k, below = group.members[static_cast<std::size_t>(k)];
  return point_to_point_s(levels, top, bytes);
}

}  // namespace espalier::cost
