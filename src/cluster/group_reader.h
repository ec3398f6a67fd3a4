// SPDX-License-Identifier: Apache-2.0
// Reads one run of equal nodes: its device, size, links inside a node and network between nodes, in short or full form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "cluster/catalogue.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// Holds one run of equal nodes while it is being read: the group, and the defaults that fill its gaps.
struct GroupDraft {
  NodeGroup group;
  const UsualNode* usual = nullptr;  ///< nullptr for a device without a base
  NetworkSpec network;               ///< for inter_group's share per device
  [[nodiscard]] std::int64_t devices() const { return group.nodes * group.devices_per_node; }
};

/// Reads one group. `segment` is requested by the file outside the groups. Does not finish() the reader: keys of
/// mixed clusters (join_reader.h) are in the same mapping.
GroupDraft read_group(base::Reader& reader, std::optional<std::int64_t> segment, std::vector<std::string>& notes);

}  // namespace espalier::cluster
