// SPDX-License-Identifier: Apache-2.0
// The catalogue as read from data/devices.yaml: devices, the usual node and network of each, and templates of fabrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/document.h"
#include "cluster/level_reader.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// Links inside a node, before the number of devices is known.
struct FabricTemplate {
  std::string name;
  std::vector<LevelSpec> levels;    ///< innermost first; one without a span covers the node
  std::optional<LevelSpec> domain;  ///< a level that joins several nodes before the network does (NVL72)
  std::string source;
};

/// Network of a node: `nics` of `bandwidth` each, shared by its devices.
struct NetworkSpec {
  std::string name;
  FabricKind kind = FabricKind::fat_tree;
  std::int64_t nics = 1;
  BytesPerSecond bandwidth;  ///< of one NIC, per direction
  Seconds latency;
  double efficiency = 0.85;
  FabricLevel shape;              ///< start, ramp, small_group and congestion only
  double oversubscription = 1.0;  ///< applies above a pod, or everywhere if pod_nodes = 0
  std::int64_t pod_nodes = 0;     ///< nodes below one leaf block; 0 = not stated
  bool in_network_reduction = false;
  std::vector<LinkChange> trace;
};

struct UsualNode {
  std::int64_t devices = 1;
  std::string fabric;
  NetworkSpec network;
  Host host;  ///< all 0: not known
};

/// The host of nodes that are rented or sold under a name, of so many devices.
struct NamedHost {
  std::string name, source;
  std::int64_t devices = 1;
  Host host;
};

struct Catalogue {
  std::vector<DeviceKind> devices;  ///< sorted by name
  std::vector<UsualNode> nodes;     ///< nodes[i] belongs to devices[i]
  std::vector<FabricTemplate> fabrics;
  std::vector<NamedHost> hosts;
  NetworkSpec fallback;         ///< of nodes that have no kind of network interface in common
  std::string fallback_source;  ///< where its figures are from
  std::vector<std::pair<std::string, std::string>>
      other_names;  ///< bare_name of what a device is called elsewhere -> its name here

  [[nodiscard]] const FabricTemplate* fabric(std::string_view name) const;
  [[nodiscard]] const UsualNode* usual_node(std::string_view device) const;
};

/// A device's name in lower case without spaces, '-', '_' and its maker's and product line's names.
std::string bare_name(std::string_view name);

Result<Catalogue> read_catalogue(std::string_view text, const std::string& where);
/// The one compiled into the library, read once.
const Catalogue& catalogue();
/// What data/devices.yaml says of a device of the catalogue, nothing fitted.
const DeviceEfficiency& prior_efficiency(std::string_view device);

/// {memory, memory_bandwidth, bandwidth, kernel_launch}: what is absent keeps the value of `host`. The first three go
/// together.
void read_host(base::Reader reader, Host& host);

/// {kind, nics_per_node | nics, bandwidth, latency, efficiency, …}: what is absent keeps the value of `network`.
void read_network(base::Reader& reader, NetworkSpec& network, std::string_view nics_key);

}  // namespace espalier::cluster
