// SPDX-License-Identifier: Apache-2.0
// Fuzzes load_cluster with any bytes. An accepted cluster has devices, levels of growing span, links with positive
// bandwidth, groups that reach each other, and events that can be replayed. Its topology can be built.
#include <cmath>

#include "cluster/topology_builders.h"
#include "espalier/cluster.h"
#include "espalier/cluster_change.h"
#include "fuzz_expect.h"

namespace {

using namespace espalier;

void expect_sound(const std::vector<FabricLevel>& levels, bool nested) {
  std::int64_t span = 1;
  for (const FabricLevel& level : levels) {
    fuzz::expect(!nested || (level.span >= span && level.span % span == 0), "spans nest", level.name);
    fuzz::expect(std::isfinite(level.bandwidth.count()) && level.bandwidth.count() > 0, "links have bandwidth", level.name);
    fuzz::expect(level.bandwidth_alone >= level.bandwidth, "alone is at least as fast", level.name);
    fuzz::expect(std::isfinite(level.latency.count()) && level.latency.count() >= 0, "latency is not negative", level.name);
    span = level.span;
  }
}

void expect_joined(const Cluster& cluster) {
  for (std::size_t a = 0; a < cluster.groups.size(); ++a)
    for (std::size_t b = 0; b < cluster.groups.size(); ++b) {
      if (a == b) continue;
      const GroupPath path = cluster.path(a, b);
      fuzz::expect(path.bandwidth.count() > 0 && std::isfinite(path.bandwidth.count()), "groups reach each other");
      fuzz::expect(path.latency.count() >= 0, "latency of a way is not negative");
      fuzz::expect(cluster.egress_price(a, b) >= 0, "prices are not negative");
    }
}

void expect_replayable(const Cluster& cluster) {
  const std::vector<Seconds> times = change_times(cluster);
  for (std::size_t i = 0; i < times.size(); i += 1 + times.size() / 20) {
    const ClusterState state = state_at(cluster, times[i]);
    fuzz::expect(static_cast<std::int64_t>(state.away.size()) <= cluster.nodes(), "no more nodes are away than there are");
  }
  for (const TokenBucket& bucket : cluster.token_buckets)
    fuzz::expect(time_to_move(bucket, full_bucket(bucket), 1e9).count() > 0, "moving takes time");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cluster = load_cluster(fuzz::text_of(data, size), "cluster.yaml");
  if (!cluster.ok()) {
    fuzz::expect_helpful(cluster.error());
    return 0;
  }
  fuzz::expect(!cluster->groups.empty() && cluster->devices() > 0, "a cluster has devices");
  for (std::size_t group = 0; group < cluster->groups.size(); ++group) {
    fuzz::expect(cluster->usable_memory(group).count() >= 0, "usable memory is not negative");
    expect_sound(cluster->groups[group].intra, true);
  }
  // The level that joins unequal groups spans all of them and need not be a multiple of a group's node.
  expect_sound(cluster->levels(), cluster->homogeneous());
  if (cluster->groups.size() <= 16) expect_joined(*cluster);
  if (cluster->devices() > 4096) return 0;
  expect_replayable(*cluster);
  const auto topology = cluster::topology_of(*cluster);
  if (!topology.ok()) fuzz::expect_helpful(topology.error());
  return 0;
}
