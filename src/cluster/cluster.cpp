// SPDX-License-Identifier: Apache-2.0
// Names of precisions and fabrics, and the few derived figures of a Cluster.
#include "espalier/cluster.h"

#include <algorithm>

#include "base/check.h"
#include "cluster/names.h"

namespace espalier {

std::string_view to_string(Precision p) { return cluster::kPrecisionNames[static_cast<std::size_t>(p)]; }

std::optional<Precision> parse_precision(std::string_view text) {
  for (std::size_t i = 0; i < cluster::kPrecisionNames.size(); ++i)
    if (cluster::kPrecisionNames[i] == text) return static_cast<Precision>(i);
  return std::nullopt;
}

std::string_view to_string(FabricKind k) { return cluster::kFabricKindNames[static_cast<std::size_t>(k)]; }

std::int64_t Cluster::devices() const {
  std::int64_t total = 0;
  for (const NodeGroup& group : groups) total += group.nodes * group.devices_per_node;
  return total;
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
