// SPDX-License-Identifier: Apache-2.0
// Finds the state of a cluster at a moment: replays events and reads traces.
#include <algorithm>
#include <map>
#include <set>

#include "base/invariant.h"
#include "cluster/presence.h"
#include "espalier/cluster_change.h"

namespace espalier {
namespace {

/// Slows down the devices that an event targets.
void slow_down(const Cluster& cluster, const ClusterEvent& event, std::map<std::int64_t, double>& slow) {
  const auto target = target_called(cluster, event.target, "events");
  ESPALIER_CHECK(target.ok());
  const bool one = target->kind == ClusterTarget::Kind::device;
  const std::int64_t first = one ? target->index : cluster.first_device_of_node(target->index);
  const std::int64_t count = one ? 1 : cluster.groups[cluster.group_of_node(target->index)].devices_per_node;
  for (std::int64_t device = first; device < first + count; ++device) slow[device] = event.value;
}

/// Replays events and traces from moment to moment.
class Replay {
 public:
  explicit Replay(const Cluster& cluster) : cluster_(&cluster), presence_(cluster), row_(cluster.capacity.size(), 0) {
    by_trace_.assign(cluster.capacity.size(), 1.0);
  }

  /// Returns the state at a moment. Moments must not decrease from call to call.
  ClusterState at(Seconds moment) {
    for (; next_ < cluster_->events.size() && cluster_->events[next_].at <= moment; ++next_) apply(cluster_->events[next_]);
    for (std::size_t t = 0; t < row_.size(); ++t) {
      const CapacityTrace& trace = cluster_->capacity[t];
      for (; row_[t] < trace.changes.size() && trace.changes[row_[t]].at <= moment; ++row_[t])
        by_trace_[t] = trace.changes[row_[t]].bandwidth_factor;
    }
    return state();
  }

 private:
  void apply(const ClusterEvent& event) {
    switch (event.kind) {
      case ClusterEventKind::join:
      case ClusterEventKind::leave: {
        const Status wrong = presence_.apply(event);
        ESPALIER_CHECK(wrong.ok());
        break;
      }
      case ClusterEventKind::slow: slow_down(*cluster_, event, slow_); break;
      case ClusterEventKind::link: by_event_[event.target] = event.value; break;
      case ClusterEventKind::route: detours_[event.target] = event.via; break;
    }
  }

  [[nodiscard]] ClusterState state() const {
    ClusterState out;
    out.away = presence_.away();
    for (const auto& [device, factor] : slow_)
      if (factor != 1.0) out.slow.push_back({device, factor});
    std::map<std::string, double> capacity = by_event_;
    for (std::size_t t = 0; t < by_trace_.size(); ++t)
      capacity.try_emplace(cluster_->capacity[t].target, 1.0).first->second *= by_trace_[t];
    for (const auto& [target, factor] : capacity)
      if (factor != 1.0) out.capacity.push_back({target, factor});
    for (const auto& [link, via] : detours_)
      if (!via.empty()) out.detours.push_back({link, via});
    return out;
  }

  const Cluster* cluster_;
  cluster::Presence presence_;
  std::map<std::int64_t, double> slow_;
  std::map<std::string, double> by_event_;
  std::vector<double> by_trace_;
  std::map<std::string, std::string> detours_;
  std::size_t next_ = 0;          // next event
  std::vector<std::size_t> row_;  // next row of each trace
};

/// Returns the nodes whose path to the network is lost. Their own factor multiplies with the least of their devices.
std::set<std::int64_t> unreached_nodes(const Cluster& cluster, const ClusterState& state) {
  std::map<std::int64_t, double> nodes, devices;  // by node; for devices the least
  for (const CapacityFactor& c : state.capacity) {
    const auto target = target_called(cluster, c.target, "cluster");
    ESPALIER_CHECK(target.ok());
    if (target->kind == ClusterTarget::Kind::node) nodes.try_emplace(target->index, 1.0).first->second *= c.factor;
    if (target->kind != ClusterTarget::Kind::device) continue;
    double& least = devices.try_emplace(cluster.node_of(target->index), 1.0).first->second;
    least = std::min(least, c.factor);
  }
  std::set<std::int64_t> out;
  for (const auto& [node, factor] : devices) nodes.try_emplace(node, 1.0).first->second *= factor;
  for (const auto& [node, factor] : nodes)
    if (factor < kLostBelow) out.insert(node);
  return out;
}

}  // namespace

ClusterState state_at(const Cluster& cluster, Seconds at) { return Replay(cluster).at(at); }

std::vector<ClusterState> states_over_time(const Cluster& cluster) {
  Replay replay(cluster);
  std::vector<ClusterState> out;
  for (const Seconds at : change_times(cluster)) out.push_back(replay.at(at));
  return out;
}

ClusterState without_lost_links(const Cluster& cluster, ClusterState state) {
  for (CapacityFactor& c : state.capacity)
    if (c.factor < kLostBelow) c.factor = 0;
  const std::set<std::int64_t> unreached = unreached_nodes(cluster, state);
  if (unreached.empty()) return state;
  std::set<std::int64_t> away(state.away.begin(), state.away.end());
  std::int64_t alone = -1;  // the first present node, if none is reached
  for (std::int64_t node = cluster.nodes() - 1; node >= 0; --node) {
    if (away.contains(node)) continue;
    if (!unreached.contains(node)) {
      alone = -1;
      break;
    }
    alone = node;
  }
  for (const std::int64_t node : unreached)
    if (node != alone) away.insert(node);
  state.away.assign(away.begin(), away.end());
  std::erase_if(state.capacity, [&](const CapacityFactor& c) {
    const auto target = target_called(cluster, c.target, "cluster");
    const bool node = target->kind == ClusterTarget::Kind::node, device = target->kind == ClusterTarget::Kind::device;
    return (node && unreached.contains(target->index)) || (device && unreached.contains(cluster.node_of(target->index)));
  });
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
