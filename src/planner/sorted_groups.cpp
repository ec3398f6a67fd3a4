// SPDX-License-Identifier: Apache-2.0
#include "planner/sorted_groups.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/invariant.h"
#include "search/node_sets.h"

namespace espalier::planner {
namespace {

/// Returns the properties of a group as numbers; names break ties.
std::vector<double> key_of(const Cluster& cluster, std::size_t g) {
  const NodeGroup& group = cluster.groups[g];
  std::vector<double> out = {static_cast<double>(group.devices_per_node),
                             static_cast<double>(group.nodes),
                             static_cast<double>(cluster.usable_memory(g).count()),
                             group.node_bandwidth.count(),
                             group.network_latency.count(),
                             static_cast<double>(group.segment),
                             group.price_per_device_hour.value_or(-1.0),
                             static_cast<double>(group.host.memory.count())};
  for (const FlopsPerSecond peak : group.device.peak) out.push_back(peak.count());
  for (const auto* levels : {&group.intra, &group.inter})
    for (const FabricLevel& level : *levels) {
      out.push_back(level.bandwidth.count());
      out.push_back(level.latency.count());
    }
  for (const DeviceSpeed& device : group.speed) {
    out.push_back(static_cast<double>(device.device - cluster.first_device(g)));
    out.push_back(device.factor);
  }
  return out;
}

}  // namespace

SortedGroups sorted_groups(const Cluster& cluster) {
  SortedGroups out;
  out.place.resize(cluster.groups.size());
  std::iota(out.place.begin(), out.place.end(), std::size_t{0});
  if (!cluster.changes())
    std::stable_sort(out.place.begin(), out.place.end(), [&](std::size_t a, std::size_t b) {
      const NodeGroup &x = cluster.groups[a], &y = cluster.groups[b];
      if (x.device.name != y.device.name) return x.device.name < y.device.name;
      const std::vector<double> of_a = key_of(cluster, a), of_b = key_of(cluster, b);
      if (of_a != of_b) return of_a < of_b;
      return x.name < y.name;
    });
  for (const std::size_t g : out.place)
    for (std::int64_t d = 0; d < cluster.groups[g].nodes * cluster.groups[g].devices_per_node; ++d)
      out.devices.push_back(cluster.first_device(g) + d);
  out.as_in_file = std::is_sorted(out.devices.begin(), out.devices.end());
  return out;
}

Job sorted_job(const Job& job, const SortedGroups& order) {
  Job out = job;
  if (order.as_in_file) return out;
  out.cluster.groups.clear();
  std::int64_t first = 0;
  for (const std::size_t g : order.place) {
    NodeGroup group = job.cluster.groups[g];
    for (DeviceSpeed& device : group.speed) device.device += first - job.cluster.first_device(g);
    first += group.nodes * group.devices_per_node;
    out.cluster.groups.push_back(std::move(group));
  }
  return out;
}

void to_file_order(const SortedGroups& order, Plan& plan) {
  if (!order.as_in_file) plan.pipelines = search::on_devices(std::move(plan.pipelines), order.devices);
}

void to_file_order(const SortedGroups& order, search::SearchResult& found) {
  if (order.as_in_file) return;
  const auto move = [&](search::GroupedCandidate& plan) {
    plan.pipelines = search::on_devices(std::move(plan.pipelines), order.devices);
  };
  const auto move_best = [&](auto& outcome) {
    if (outcome && outcome->best) move(*outcome->best);
  };
  move_best(found.alone);
  move_best(found.of_classes);
  move_best(found.grouped);
  move_best(found.across);
  move_best(found.multi_pipeline);
  move_best(found.replicas);
  if (found.grouped)
    for (search::GroupedCandidate& plan : found.grouped->simulated) move(plan);
  if (!found.alone) return;
  std::vector<search::GroupAlone> groups(found.alone->groups.size());
  ESPALIER_CHECK(groups.size() == order.place.size());
  for (std::size_t g = 0; g < groups.size(); ++g) groups[order.place[g]] = std::move(found.alone->groups[g]);
  found.alone->groups = std::move(groups);
}

}  // namespace espalier::planner
