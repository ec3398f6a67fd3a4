// SPDX-License-Identifier: Apache-2.0
// Reads one level of a fabric, in the form of the catalogue's templates and of the full form of a cluster file.
//   level   {name, kind, span, bandwidth | uplink, bandwidth_alone, per_peer, latency, efficiency, oversubscription,
//            start, ramp, small_group, congestion, direct_bytes, in_network_reduction, trace}
//   trace   [{at, bandwidth_factor, latency_factor}].
//
// The key `bandwidth` is per device and direction before oversubscription. All devices of one domain of the level below
// share `uplink`: bandwidth = uplink / (devices of that domain). It is fixed once the spans are known (resolve_levels).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

/// States the devices that a domain spans: a number, or one of two words.
struct DomainSpan {
  enum class Kind : std::uint8_t { devices, node, cluster } kind = Kind::node;
  std::int64_t devices = 0;  ///< kind == devices
};

/// Describes a level whose span and shared bandwidth still depend on the node and cluster around it.
struct LevelSpec {
  FabricLevel level;  ///< span, bandwidth and bandwidth_alone are not final
  DomainSpan span;
  BytesPerSecond link;    ///< `bandwidth`, 0 if `uplink` was given
  BytesPerSecond uplink;  ///< 0 if `bandwidth` was given
  BytesPerSecond alone;   ///< 0 if not given
  double oversubscription = 1.0;
};

/// Reads a level. `notes` gets a line for each default used.
LevelSpec read_level(base::Reader& reader, std::vector<std::string>& notes);
std::vector<LinkChange> read_trace(base::Reader& reader);

/// Resolves spans and bandwidths for a node of `devices_per_node`. Inner levels shrink to equal parts of the node.
/// Levels that do not fit at all are left out.
std::vector<FabricLevel> resolve_node_levels(const std::vector<LevelSpec>& specs, std::int64_t devices_per_node);
/// Resolves the levels as written: every level stays, and the caller checks nesting.
std::vector<FabricLevel> resolve_all_levels(const std::vector<LevelSpec>& specs, std::int64_t devices_per_node,
                                            std::int64_t total);

/// Return figures for notes: "450 GB/s", "5 us".
std::string format_bandwidth(BytesPerSecond bandwidth);
std::string format_latency(Seconds latency);

// Ranges shared by all readers of fabrics.
inline constexpr double kMaxBandwidth = 1e15;  ///< bytes/s
inline constexpr double kMaxLatency = 10.0;    ///< s
/// Reads a rate in (0, kMaxBandwidth]; records an error otherwise. If absent, returns `fallback`.
double read_bandwidth(base::Reader& reader, std::string_view key, double fallback);
double read_latency(base::Reader& reader, std::string_view key, double fallback);
double read_efficiency(base::Reader& reader, std::string_view key, double fallback);
/// Reads start, ramp, small_group, congestion and direct_bytes, which define how time depends on message size and
/// group. Absent keys keep their value.
void read_shape(base::Reader& reader, FabricLevel& level);
FabricKind read_kind(base::Reader& reader, FabricKind fallback);

}  // namespace espalier::cluster
