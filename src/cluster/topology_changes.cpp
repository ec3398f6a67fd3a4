// SPDX-License-Identifier: Apache-2.0
// Puts capacities over time and token buckets of a cluster on the links that they mean (topology_builders.h).
#include <algorithm>
#include <map>
#include <set>

#include "base/invariant.h"
#include "cluster/topology_assembly.h"

namespace espalier::cluster {
namespace {

/// Returns the product of two piecewise constant functions that are 1 before their first change.
std::vector<LinkChange> product(const std::vector<LinkChange>& a, const std::vector<LinkChange>& b) {
  std::vector<LinkChange> both;
  LinkChange now_a{Seconds(0)}, now_b{Seconds(0)};
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const Seconds at = j == b.size() || (i < a.size() && a[i].at <= b[j].at) ? a[i].at : b[j].at;
    if (i < a.size() && a[i].at == at) now_a = a[i++];
    if (j < b.size() && b[j].at == at) now_b = b[j++];
    both.push_back({at, now_a.bandwidth_factor * now_b.bandwidth_factor, now_a.latency_factor * now_b.latency_factor});
  }
  return both;
}

/// Returns the first device and the number of devices of a node or of one rank.
std::pair<std::int64_t, std::int64_t> devices_of(const Cluster& cluster, const ClusterTarget& target) {
  if (target.kind == ClusterTarget::Kind::device) return {target.index, 1};
  return {cluster.first_device_of_node(target.index), cluster.groups[cluster.group_of_node(target.index)].devices_per_node};
}

}  // namespace

/// Returns the links of a target, each once, in ascending order.
std::vector<LinkId> TopologyAssembly::links_of(const Cluster& cluster, const std::string& name) const {
  const auto target = target_called(cluster, name, "capacity");
  ESPALIER_CHECK(target.ok());  // readers refuse unknown targets
  if (target->kind == ClusterTarget::Kind::link) {
    ESPALIER_CHECK(!made_.ways_.empty());
    return made_.links_of_way(static_cast<std::size_t>(target->index));
  }
  std::set<LinkId> ports;
  const auto [first, count] = devices_of(cluster, *target);
  for (std::int64_t device = first; device < first + count; ++device)
    for (const LinkId port : made_.network_ports(device)) ports.insert(port);
  return {ports.begin(), ports.end()};
}

void TopologyAssembly::add_changes(const Cluster& cluster) {
  std::map<LinkId, std::vector<LinkChange>> traces;
  for (const CapacityTrace& trace : cluster.capacity)
    for (const LinkId link : links_of(cluster, trace.target)) {
      const auto at = traces.try_emplace(link, made_.range_of(link).trace).first;
      at->second = product(at->second, trace.changes);
    }
  for (auto& [link, changes] : traces) made_.traces_.push_back({link, std::move(changes)});
  for (const TokenBucket& bucket : cluster.token_buckets) {
    const std::vector<LinkId> links = links_of(cluster, bucket.target);
    const bool ports = target_called(cluster, bucket.target, "capacity")->kind != ClusterTarget::Kind::link;
    const double parts = ports ? std::max(1.0, static_cast<double>(links.size()) / 2.0) : 1.0;
    for (const LinkId link : links)
      made_.buckets_.push_back({link, bucket.full.count() / parts, bucket.sustained.count() / parts,
                                static_cast<double>(bucket.bucket.count()) / parts});
  }
}

}  // namespace espalier::cluster
