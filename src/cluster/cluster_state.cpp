// SPDX-License-Identifier: Apache-2.0
// What is there at a moment: events replayed, traces read off.
#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "cluster/presence.h"
#include "espalier/cluster_change.h"

namespace espalier {
namespace {

/// Devices that a slow event speaks of.
void slow_down(const Cluster& cluster, const ClusterEvent& event, std::map<std::int64_t, double>& slow) {
  const auto target = target_called(cluster, event.target, "events");
  ESPALIER_CHECK(target.ok());
  const bool one = target->kind == ClusterTarget::Kind::device;
  const std::int64_t first = one ? target->index : cluster.first_device_of_node(target->index);
  const std::int64_t count = one ? 1 : cluster.groups[cluster.group_of_node(target->index)].devices_per_node;
  for (std::int64_t device = first; device < first + count; ++device) slow[device] = event.value;
}

double factor_at(const std::vector<LinkChange>& changes, Seconds at) {
  double factor = 1.0;
  for (const LinkChange& change : changes)
    if (change.at <= at) factor = change.bandwidth_factor;
  return factor;
}

}  // namespace

ClusterState state_at(const Cluster& cluster, Seconds at) {
  cluster::Presence presence(cluster);
  std::map<std::int64_t, double> slow;
  std::map<std::string, double> capacity;
  std::map<std::string, std::string> detours;
  for (const ClusterEvent& event : cluster.events) {
    if (event.at > at) break;
    switch (event.kind) {
      case ClusterEventKind::join:
      case ClusterEventKind::leave: {
        const Status wrong = presence.apply(event);
        ESPALIER_CHECK(!wrong);
        break;
      }
      case ClusterEventKind::slow: slow_down(cluster, event, slow); break;
      case ClusterEventKind::link: capacity[event.target] = event.value; break;
      case ClusterEventKind::route: detours[event.target] = event.via; break;
    }
  }
  for (const CapacityTrace& trace : cluster.capacity) {
    const auto found = capacity.emplace(trace.target, 1.0).first;
    found->second *= factor_at(trace.changes, at);
  }
  ClusterState state;
  state.away = presence.away();
  for (const auto& [device, factor] : slow)
    if (factor != 1.0) state.slow.push_back({device, factor});
  for (const auto& [target, factor] : capacity)
    if (factor != 1.0) state.capacity.push_back({target, factor});
  for (const auto& [link, via] : detours)
    if (!via.empty()) state.detours.push_back({link, via});
  return state;
}

std::vector<Seconds> change_times(const Cluster& cluster) {
  std::set<double> times{0.0};
  for (const ClusterEvent& event : cluster.events) times.insert(event.at.count());
  for (const CapacityTrace& trace : cluster.capacity)
    for (const LinkChange& change : trace.changes) times.insert(change.at.count());
  std::vector<Seconds> out;
  for (const double time : times) out.emplace_back(time);
  return out;
}

}  // namespace espalier
