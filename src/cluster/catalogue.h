// SPDX-License-Identifier: Apache-2.0
// Declares the catalogue, read from data/devices.yaml: devices, the usual node and network of each, and templates of
// fabrics.
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

/// Describes links inside a node, before the number of devices is known.
struct FabricTemplate {
  std::string name;
  std::vector<LevelSpec> levels;    ///< innermost first; a level without a span covers the node
  std::optional<LevelSpec> domain;  ///< level that joins several nodes below the network (NVL72)
  std::string source;
};

/// Describes the network of a node: `nics` of `bandwidth` each, shared by its devices.
struct NetworkSpec {
  std::string name;
  FabricKind kind = FabricKind::fat_tree;
  std::int64_t nics = 1;
  BytesPerSecond bandwidth;  ///< bandwidth of one NIC, per direction
  Seconds latency;
  double efficiency = 0.85;
  FabricLevel shape;              ///< only start, ramp, small_group and congestion
  double oversubscription = 1.0;  ///< applies above a pod, or everywhere if pod_nodes = 0
  std::int64_t pod_nodes = 0;     ///< nodes below one leaf block; 0 = not stated
  bool in_network_reduction = false;
  std::vector<LinkChange> trace;
};

struct UsualNode {
  std::int64_t devices = 1;
  std::string fabric;
  NetworkSpec network;
  Host host;  ///< all 0: unknown
};

/// Describes the host of nodes with `devices` devices that are rented or sold under a name.
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
  NetworkSpec fallback;         ///< for nodes without a common kind of network interface
  std::string fallback_source;  ///< source of its figures
  /// Maps the bare_name of a device's other names to its name here.
  std::vector<std::pair<std::string, std::string>> other_names;

  [[nodiscard]] const FabricTemplate* fabric(std::string_view name) const;
  [[nodiscard]] const UsualNode* usual_node(std::string_view device) const;
};

/// Returns a device's name in lower case, without spaces, '-', '_' and the names of its maker and product line.
std::string bare_name(std::string_view name);

Result<Catalogue> read_catalogue(std::string_view text, const std::string& where);
/// Returns the catalogue that is compiled into the library, read once.
const Catalogue& catalogue();
/// Returns the efficiency of a catalogue device in data/devices.yaml, without fitted values.
const DeviceEfficiency& prior_efficiency(std::string_view device);

/// Reads {memory, memory_bandwidth, bandwidth, kernel_launch}. Absent keys keep the value of `host`. The first three
/// belong together.
void read_host(base::Reader reader, Host& host);

/// Reads {kind, nics_per_node | nics, bandwidth, latency, efficiency, …}. Absent keys keep the value of `network`.
void read_network(base::Reader& reader, NetworkSpec& network, std::string_view nics_key);

}  // namespace espalier::cluster
