// SPDX-License-Identifier: Apache-2.0
// Generates random clusters of at most 64 devices. They have one to three fabric levels, sizes that are powers of two
// or not, and devices and links from very slow to very fast. So launches, compute, memory, latency and bandwidth each
// dominate in some of them.
#pragma once

#include <cmath>
#include <string>

#include "espalier/cluster.h"
#include "random.h"

namespace espalier::property {

/// Returns 10^low … 10^high, evenly in the exponent (in tenths).
inline double magnitude(Random& random, int low, int high) {
  return std::pow(10.0, static_cast<double>(random.between(std::int64_t{10} * low, std::int64_t{10} * high)) / 10.0);
}

inline DeviceKind toy_device(Random& random) {
  DeviceKind d;
  d.name = "toy";
  d.peak.fill(FlopsPerSecond(magnitude(random, 9, 15)));
  d.memory = GiB(1024);
  d.context_reserve = Bytes(0);
  d.memory_bandwidth = BytesPerSecond(magnitude(random, 8, 13));
  DeviceEfficiency& e = d.efficiency;
  e.gemm_memory = magnitude(random, -1, 0);
  e.attention_rows = magnitude(random, 0, 4);
  e.attention_prologue = magnitude(random, 0, 3);
  e.kernel_launch = Seconds(random.one_in(3) ? 0.0 : magnitude(random, -8, -4));
  e.kernel_floor = Seconds(random.one_in(3) ? 0.0 : magnitude(random, -8, -5));
  if (random.one_in(3))
    e.overlap_compute_slowdown = e.overlap_communication_slowdown = 1.0;
  else if (random.one_in(3))
    e.overlap_traffic = static_cast<double>(random.below(20));
  else {
    e.overlap_compute_slowdown = 1.0 + static_cast<double>(random.below(150)) / 100.0;
    e.overlap_communication_slowdown = 1.0 + static_cast<double>(random.below(150)) / 100.0;
    e.measured_overlap = true;
  }
  return d;
}

inline FabricLevel toy_level(Random& random, const std::string& name, std::int64_t span) {
  FabricLevel level;
  level.name = name;
  level.span = span;
  level.bandwidth = level.bandwidth_alone = BytesPerSecond(magnitude(random, 6, 12));
  level.latency = Seconds(random.one_in(3) ? 0.0 : magnitude(random, -8, -4));
  level.efficiency = static_cast<double>(random.between(30, 100)) / 100.0;
  if (random.one_in(2)) {
    level.start = Seconds(magnitude(random, -7, -4));
    level.ramp = static_cast<double>(random.below(20)) / 10.0;
    level.small_group = static_cast<double>(random.below(100)) / 100.0;
    level.congestion = static_cast<double>(random.below(20)) / 100.0;
    level.kind = random.one_in(2) ? FabricKind::fat_tree : FabricKind::nvswitch;
  }
  level.in_network_reduction = random.one_in(4);
  if (random.one_in(4)) level.direct_bytes = magnitude(random, 2, 7);
  if (random.one_in(5)) level.per_peer = level.bandwidth / static_cast<double>(std::max<std::int64_t>(1, span - 1));
  return level;
}

inline Cluster toy_cluster(Random& random, std::int64_t devices) {
  Cluster c;
  c.name = "toy";
  NodeGroup group;
  std::vector<std::int64_t> per_node;
  for (std::int64_t d = 1; d <= devices; ++d)
    if (devices % d == 0) per_node.push_back(d);
  group.devices_per_node = random.of(per_node);
  group.nodes = devices / group.devices_per_node;
  group.device = toy_device(random);
  if (group.devices_per_node % 2 == 0 && group.devices_per_node > 2 && random.one_in(3))
    group.intra.push_back(toy_level(random, "pair", 2));
  group.intra.push_back(toy_level(random, "node", group.devices_per_node));
  c.groups = {group};
  if (group.nodes > 1) {
    if (group.nodes % 2 == 0 && group.nodes > 2 && group.intra.size() == 1 && random.one_in(2))
      c.inter.push_back(toy_level(random, "rack", group.devices_per_node * 2));
    c.inter.push_back(toy_level(random, "network", devices));
  }
  return c;
}

}  // namespace espalier::property
