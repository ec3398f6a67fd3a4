// SPDX-License-Identifier: Apache-2.0
#include "cost/collective.h"
#include "base/division.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cluster/hardware_facts.h"

namespace espalier::cost {
namespace {

/// Returns β·η of a level for a group with `peers` other members there; the pairs in use limit direct links (mesh).
double reachable(const FabricLevel& level, std::int64_t peers = INT64_MAX) {
  double bandwidth = level.bandwidth.count();
  if (level.per_peer.count() > 0) bandwidth = std::min(bandwidth, static_cast<double>(peers) * level.per_peer.count());
  return bandwidth * level.efficiency;
}

/// Returns ⌈log2 n⌉ for n ≥ 1.
int log2_ceil(std::int64_t n) { return n <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1))); }

double congested(const FabricLevel& level, std::int64_t joined) {
  return level.congestion > 0 ? 1.0 + level.congestion * std::log2(static_cast<double>(joined)) : 1.0;
}

bool between_nodes(FabricKind kind) {
  return kind == FabricKind::rail_optimized || kind == FabricKind::fat_tree || kind == FabricKind::ethernet;
}

/// Sums up the crossed levels of a group.
struct CrossedLevels {
  double per_byte = 0;              ///< max_k (1 + λ_k/(g−1)) / B_k, s/byte
  double per_byte_twice = 0;        ///< with λ_k/2: two passes share one copy of the own part
  double per_byte_plain = 0;        ///< with λ = 0
  double ramp = 0, ramp_twice = 0;  ///< largest ρ_k·√(V_k/V) of the levels, with λ_k and λ_k/2
  double start = 0, ring_latency = 0, tree_latency = 0, exchange_latency = 0, hop = 0;  ///< seconds
  double farthest = 0;                                                                  ///< the longest hop, seconds
  double direct_bytes = 0;                                                              ///< least of the levels
  int crossed = 0;
  bool in_network = false;
  [[nodiscard]] bool direct(double bytes) const { return direct_bytes > 0 && bytes <= direct_bytes; }
};

/// Raises the largest ρ_k·√V_k of the levels so far, as ρ of a volume `most` that is V; level k with V_k = `volume`
/// joins them. A ramp raised for `before` is rescaled to the larger volume.
void raise_ramp(double& ramp, double before, double most, double level_ramp, double volume) {
  if (most > before && before > 0) ramp *= std::sqrt(before / most);
  if (before == 0) ramp = 0;
  ramp = std::max(ramp, volume >= most ? level_ramp : level_ramp * std::sqrt(volume / most));
}

CrossedLevels path_of(const std::vector<FabricLevel>& levels, const Group& group) {
  CrossedLevels path;
  std::int64_t below = 1;
  const double size = static_cast<double>(group.size), own = 1.0 / (size - 1.0);
  for (int k = 0; k < group.levels; ++k) {
    const auto& level = levels[static_cast<std::size_t>(k)];
    const std::int64_t here = group.members[static_cast<std::size_t>(k)];
    if (here <= below) continue;
    const std::int64_t joined = ceil_div(here, below);
    const double plain = congested(level, joined) / (static_cast<double>(below) * reachable(level, joined - 1));
    path.per_byte_plain = std::max(path.per_byte_plain, plain);
    const double once = plain * (1.0 + level.small_group * own), twice = plain * (1.0 + 0.5 * level.small_group * own);
    const double before = path.per_byte, before_twice = path.per_byte_twice;
    path.per_byte = std::max(path.per_byte, once);
    path.per_byte_twice = std::max(path.per_byte_twice, twice);
    raise_ramp(path.ramp, before, path.per_byte, level.ramp, once);
    raise_ramp(path.ramp_twice, before_twice, path.per_byte_twice, level.ramp, twice);
    const double alpha = level.latency.count();
    path.start = std::max(path.start, level.start.count());
    path.ring_latency += (size / static_cast<double>(below) - size / static_cast<double>(here)) * alpha;
    path.tree_latency += static_cast<double>(between_nodes(level.kind) ? log2_ceil(joined) : joined - 1) * alpha;
    path.exchange_latency += log2_ceil(joined) * alpha;
    path.farthest = std::max(path.farthest, alpha);
    path.direct_bytes = path.crossed == 0 ? level.direct_bytes : std::min(path.direct_bytes, level.direct_bytes);
    path.in_network = path.crossed == 0 && level.in_network_reduction;
    path.hop = alpha;
    ++path.crossed;
    below = here;
  }
  return path;
}

/// Returns L + V + ρ·√(L·V).
double ramped(double latency, double volume, double ramp) {
  return ramp > 0 ? latency + volume + ramp * std::sqrt(latency * volume) : latency + volume;
}

/// Returns the bytes that each rank passes on in one ring pass, M.
double moved(const Group& group, double bytes) {
  return bytes * static_cast<double>(group.size - 1) / static_cast<double>(group.size);
}

/// Holds the time of the bytes in an exchange of `bytes` per rank on the slowest level, and its ramp, as a path has
/// it.
struct SlowestLevelTime {
  double seconds = 0, ramp = 0;
};
SlowestLevelTime exchange_of(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  SlowestLevelTime slowest;
  std::int64_t below = 1;
  for (int k = 0; k < group.levels; ++k) {
    const auto& level = levels[static_cast<std::size_t>(k)];
    const std::int64_t here = group.members[static_cast<std::size_t>(k)];
    if (here <= below) continue;
    const double leaving = bytes * static_cast<double>(group.size - below) / static_cast<double>(group.size);
    const double own = 1.0 + level.small_group / static_cast<double>(group.size - 1);
    const double volume = leaving * own * congested(level, ceil_div(here, below)) / reachable(level, here - 1);
    const double before = slowest.seconds;
    slowest.seconds = std::max(slowest.seconds, volume);
    if (slowest.seconds > 0) raise_ramp(slowest.ramp, before, slowest.seconds, level.ramp, volume);
    below = here;
  }
  return slowest;
}

/// Returns the seconds of `phases` exchanges one after the other, each requested before the one before it ends.
double direct_s(const std::vector<FabricLevel>& levels, const Group& group, const CrossedLevels& path, double bytes, int phases) {
  const SlowestLevelTime once = exchange_of(levels, group, bytes);
  return ramped(path.start + phases * path.farthest, phases * once.seconds, once.ramp);
}

}  // namespace

double all_gather_least_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  const CrossedLevels path = path_of(levels, group);
  if (path.direct_bytes <= 0) return all_gather_s(levels, group, bytes);
  const SlowestLevelTime direct = exchange_of(levels, group, bytes);
  const double volume = std::min(moved(group, bytes) * path.per_byte, direct.seconds);
  return ramped(path.start + std::min(path.ring_latency, path.farthest), volume, std::min(path.ramp, direct.ramp));
}

double all_reduce_least_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  const CrossedLevels path = path_of(levels, group);
  if (path.direct_bytes <= 0) return all_reduce_s(levels, group, bytes);
  // One exchange of all copies moves no less than two of the parts.
  const SlowestLevelTime direct = exchange_of(levels, group, bytes);
  const double volume = 2.0 * std::min(moved(group, bytes) * path.per_byte_twice, direct.seconds);
  return ramped(path.start + std::min(2.0 * path.ring_latency, path.farthest), volume, std::min(path.ramp_twice, direct.ramp));
}

double all_gather_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  const CrossedLevels path = path_of(levels, group);
  if (path.direct(bytes)) return direct_s(levels, group, path, bytes, 1);
  return ramped(path.start + path.ring_latency, moved(group, bytes) * path.per_byte, path.ramp);
}

double reduce_scatter_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  return all_gather_s(levels, group, bytes);
}

double all_reduce_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  const CrossedLevels path = path_of(levels, group);
  const double everywhere = bytes * static_cast<double>(group.size);
  if (path.direct(everywhere)) return direct_s(levels, group, path, everywhere, 1);
  if (path.direct(bytes)) return direct_s(levels, group, path, bytes, 2);
  const double volume = 2.0 * moved(group, bytes) * path.per_byte_twice;
  double best = ramped(path.start + 2.0 * path.ring_latency, volume, path.ramp_twice);
  if (path.direct_bytes > 0) return best;
  if (path.tree_latency < path.ring_latency)
    best = std::min(
        best, ramped(path.start + 2.0 * path.tree_latency, volume / cluster::hardware_facts().tree_all_reduce, path.ramp_twice));
  if (path.in_network && path.crossed == 1)
    best = std::min(best, ramped(path.start + 2.0 * path.hop,
                                 bytes * path.per_byte_plain / cluster::hardware_facts().in_network_all_reduce, path.ramp));
  return best;
}

double all_to_all_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  const CrossedLevels path = path_of(levels, group);
  if (path.direct(bytes)) return direct_s(levels, group, path, bytes, 1);
  const double rounds = static_cast<double>(group.size - 1) * path.farthest;
  const SlowestLevelTime once = exchange_of(levels, group, bytes);
  return ramped(path.start + (path.direct_bytes > 0 ? rounds : path.exchange_latency), once.seconds, once.ramp);
}

double point_to_point_s(const std::vector<FabricLevel>& levels, int level, double bytes) {
  if (levels.empty() || level < 0) return 0.0;
  const auto& link = levels[static_cast<std::size_t>(level)];
  return link.start.count() + link.latency.count() + bytes / reachable(link, 1);
}

double ring_step_s(const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (group.size <= 1) return 0.0;
  int top = 0;
  std::int64_t below = 1;
  for (int k = 0; k < group.levels; ++k)
    if (group.members[static_cast<std::size_t>(k)] > below) {
      top = k;
      below = group.members[static_cast<std::size_t>(k)];
    }
  return point_to_point_s(levels, top, bytes);
}

double moved_bytes(CollectiveKind kind, const std::vector<FabricLevel>& levels, const Group& group, double bytes) {
  if (kind == CollectiveKind::ring_shift || kind == CollectiveKind::point_to_point) return bytes;
  if (group.size <= 1) return 0.0;
  const double once = moved(group, bytes);
  if (kind != CollectiveKind::all_reduce) return once;
  int crossed = 0;
  bool in_network = false;
  std::int64_t below = 1;
  for (int k = 0; k < group.levels; ++k) {
    const std::int64_t here = group.members[static_cast<std::size_t>(k)];
    if (here <= below) continue;
    in_network = levels[static_cast<std::size_t>(k)].in_network_reduction;
    below = here;
    ++crossed;
  }
  return in_network && crossed == 1 ? std::min(2.0 * once, bytes / cluster::hardware_facts().in_network_all_reduce) : 2.0 * once;
}

Interference interference_of(const DeviceEfficiency& device, double memory_bandwidth) {
  const bool constant = device.measured_overlap || memory_bandwidth <= 0;
  return {device.overlap_communication_slowdown, device.overlap_compute_slowdown,
          constant ? 0.0 : device.overlap_traffic / memory_bandwidth};
}

}  // namespace espalier::cost
