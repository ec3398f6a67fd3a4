// SPDX-License-Identifier: Apache-2.0
#include "sim/topology_network.h"

namespace espalier::sim {

FlowNetwork flow_network(const cluster::Topology& topology) {
  std::vector<double> capacities;
  capacities.reserve(static_cast<std::size_t>(topology.links()));
  for (const cluster::LinkRange& range : topology.ranges())
    capacities.insert(capacities.end(), static_cast<std::size_t>(range.count), range.capacity);
  FlowNetwork network(capacities);
  for (const cluster::LinkRange& range : topology.ranges())
    for (const LinkChange& change : range.trace)
      network.change_capacity(round_ns(change.at).count(), range.first, range.count, change.bandwidth_factor);
  // After those of ranges, since the later entry of a link counts.
  for (const cluster::LinkTrace& trace : topology.traces())
    for (const LinkChange& change : trace.changes)
      network.change_capacity(round_ns(change.at).count(), trace.link, 1, change.bandwidth_factor);
  for (const cluster::LinkBucket& bucket : topology.buckets())
    network.add_bucket(bucket.link, bucket.full, bucket.sustained, bucket.bucket);
  return network;
}

std::vector<solve::FlowLink> uses_of(const std::vector<cluster::LinkId>& route) {
  std::vector<solve::FlowLink> uses;
  uses.reserve(route.size());
  for (const cluster::LinkId link : route) uses.push_back({link, 1.0});
  return uses;
}

}  // namespace espalier::sim
