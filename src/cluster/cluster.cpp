// SPDX-License-Identifier: Apache-2.0
// Implements names of the enums, and values derived from a Cluster: locations, speeds, prices. paths.cpp has the
// paths between groups.
#include "espalier/cluster.h"

#include <algorithm>
#include <limits>

#include "base/invariant.h"
#include "cluster/names.h"

namespace espalier {

std::string_view to_string(Precision p) { return cluster::kPrecisionNames[static_cast<std::size_t>(p)]; }

std::optional<Precision> parse_precision(std::string_view text) {
  for (std::size_t i = 0; i < cluster::kPrecisionNames.size(); ++i)
    if (cluster::kPrecisionNames[i] == text) return static_cast<Precision>(i);
  return std::nullopt;
}

std::string_view to_string(FabricKind k) { return cluster::kFabricKindNames[static_cast<std::size_t>(k)]; }

std::string_view to_string(LinkSharing sharing) { return cluster::kLinkSharingNames[static_cast<std::size_t>(sharing)]; }

std::string_view to_string(ClusterEventKind kind) { return cluster::kEventNames[static_cast<std::size_t>(kind)]; }

std::int64_t Cluster::devices() const { return first_device(groups.size()); }

std::int64_t Cluster::nodes() const { return first_node(groups.size()); }

std::int64_t Cluster::first_device(std::size_t group) const {
  ESPALIER_CHECK(group <= groups.size());
  std::int64_t before = 0;
  for (std::size_t g = 0; g < group; ++g) before += groups[g].nodes * groups[g].devices_per_node;
  return before;
}

std::int64_t Cluster::first_node(std::size_t group) const {
  ESPALIER_CHECK(group <= groups.size());
  std::int64_t before = 0;
  for (std::size_t g = 0; g < group; ++g) before += groups[g].nodes;
  return before;
}

std::size_t Cluster::group_of(std::int64_t device) const {
  ESPALIER_CHECK(device >= 0);
  std::int64_t after = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    after += groups[g].nodes * groups[g].devices_per_node;
    if (device < after) return g;
  }
  ESPALIER_CHECK(device < after);
  return groups.size();
}

std::size_t Cluster::group_of_node(std::int64_t node) const {
  ESPALIER_CHECK(node >= 0);
  std::int64_t after = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    after += groups[g].nodes;
    if (node < after) return g;
  }
  ESPALIER_CHECK(node < after);
  return groups.size();
}

std::int64_t Cluster::node_of(std::int64_t device) const {
  const std::size_t group = group_of(device);
  return first_node(group) + (device - first_device(group)) / groups[group].devices_per_node;
}

std::int64_t Cluster::first_device_of_node(std::int64_t node) const {
  const std::size_t group = group_of_node(node);
  return first_device(group) + (node - first_node(group)) * groups[group].devices_per_node;
}

double Cluster::speed_of(std::int64_t device) const {
  const std::vector<DeviceSpeed>& unlike = groups[group_of(device)].speed;
  const auto at = std::lower_bound(unlike.begin(), unlike.end(), device,
                                   [](const DeviceSpeed& speed, std::int64_t id) { return speed.device < id; });
  return at != unlike.end() && at->device == device ? at->factor : 1.0;
}

double Cluster::slowest_of(std::int64_t first, std::int64_t count) const {
  ESPALIER_CHECK(count >= 1);
  if (!has_speeds()) return 1.0;
  double slowest = std::numeric_limits<double>::infinity();
  for (std::int64_t device = first; device < first + count; ++device) slowest = std::min(slowest, speed_of(device));
  return slowest;
}

Cluster Cluster::alone(std::size_t group) const {
  ESPALIER_CHECK(group < groups.size());
  Cluster out;
  out.name = name;
  out.groups = {groups[group]};
  out.inter = homogeneous() ? inter : groups[group].inter;
  out.groups.front().inter.clear();
  out.groups.front().speed.clear();
  out.memory_limit = memory_limit;
  out.currency = currency;
  return out;
}

DeviceKind DeviceKind::at_speed(double factor) const {
  ESPALIER_CHECK(factor > 0);
  DeviceKind out = *this;
  out.speed *= factor;
  for (FlopsPerSecond& rate : out.peak) rate = FlopsPerSecond(rate.count() * factor);
  out.memory_bandwidth = BytesPerSecond(memory_bandwidth.count() * factor);
  out.efficiency.kernel_launch = Seconds(efficiency.kernel_launch.count() / factor);
  out.efficiency.kernel_floor = Seconds(efficiency.kernel_floor.count() / factor);
  // Scales with bandwidth, so that the compute cost of a collective is unchanged.
  out.efficiency.overlap_traffic = efficiency.overlap_traffic * factor;
  return out;
}

bool Cluster::has_speeds() const {
  return std::any_of(groups.begin(), groups.end(), [](const NodeGroup& group) { return !group.speed.empty(); });
}

bool Cluster::changes() const {
  const auto varies = [](const std::vector<FabricLevel>& of) {
    return std::any_of(of.begin(), of.end(), [](const FabricLevel& level) { return !level.trace.empty(); });
  };
  const auto inside = [&](const NodeGroup& group) { return varies(group.intra) || varies(group.inter); };
  return !capacity.empty() || !token_buckets.empty() || !events.empty() || varies(inter) ||
         std::any_of(groups.begin(), groups.end(), inside);
}

std::vector<std::string> Cluster::sites() const {
  std::vector<std::string> names;
  for (const NodeGroup& group : groups)
    if (!group.site.empty() && std::find(names.begin(), names.end(), group.site) == names.end()) names.push_back(group.site);
  return names;
}

std::optional<std::size_t> Cluster::group_called(std::string_view wanted) const {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].name == wanted) return g;
  return std::nullopt;
}

std::optional<std::size_t> Cluster::link_called(std::string_view wanted) const {
  for (std::size_t l = 0; l < links.size(); ++l) {
    const std::string& from = links[l].from;
    const std::string& to = links[l].to;
    if (wanted.size() == from.size() + 1 + to.size() && wanted[from.size()] == '-' && wanted.starts_with(from) &&
        wanted.ends_with(to))
      return l;
  }
  return std::nullopt;
}

double Cluster::egress_price(std::size_t from_group, std::size_t to_group) const {
  ESPALIER_CHECK(from_group < groups.size() && to_group < groups.size());
  const NodeGroup& from = groups[from_group];
  const NodeGroup& to = groups[to_group];
  const auto between = [&](const std::string& a, const std::string& b) -> const EgressPrice* {
    for (const EgressPrice& price : egress)
      if (price.from == a && price.to == b) return &price;
    return nullptr;
  };
  if (from_group == to_group) return 0.0;
  for (const auto& [a, b] : {std::pair(from.name, to.name), std::pair(from.name, to.site), std::pair(from.site, to.name)})
    if (const EgressPrice* price = between(a, b)) return price->per_gigabyte;
  const EgressPrice* price = from.site == to.site ? nullptr : between(from.site, to.site);
  return price == nullptr ? 0.0 : price->per_gigabyte;
}

std::vector<FabricLevel> Cluster::levels() const {
  ESPALIER_CHECK(!groups.empty());
  std::vector<FabricLevel> all = groups.front().intra;
  all.insert(all.end(), groups.front().inter.begin(), groups.front().inter.end());
  all.insert(all.end(), inter.begin(), inter.end());
  return all;
}

Bytes Cluster::usable_memory(std::size_t group) const {
  ESPALIER_CHECK(group < groups.size());
  const DeviceKind& device = groups[group].device;
  const Bytes free = device.memory - device.context_reserve;
  return memory_limit ? std::min(free, *memory_limit) : free;
}

}  // namespace espalier
