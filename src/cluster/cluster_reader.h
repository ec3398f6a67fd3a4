// SPDX-License-Identifier: Apache-2.0
// Reads a cluster from a mapping: a separate file or the `cluster:` part of a job. There are three forms
// (docs/file-formats.md):
//   short   {nodes, devices_per_node, device, intra_node: {…}, inter_node: {…}, segment, memory_limit}
//           usual node and fabric
//   full    {nodes, devices_per_node, device, fabric: [{name, kind, span, bandwidth, …}, …]}   every level listed
//   mixed   {groups: [short or full, …], inter_group | links | matrix, segment, memory_limit}   unequal nodes.
// Each of them also takes prices (join_reader.h), traits of groups (traits_reader.h), and changes over time
// (change_reader.h). Errors go to the reader's sink; notes on defaults go to Cluster::notes.
#pragma once

#include "base/document.h"
#include "cluster/cluster_files.h"
#include "espalier/cluster.h"

namespace espalier::cluster {

inline constexpr std::int64_t kMaxNodes = 1'000'000;
inline constexpr std::int64_t kMaxDevices = 10'000'000;
inline constexpr std::int64_t kMaxDevicesPerNode = 1024;
inline constexpr std::size_t kMaxGroups = 256;
inline constexpr std::size_t kMaxFabricLevels = 6;  ///< intra and inter together, as the cost model expects

/// Reads and checks the whole mapping (finish() included). The result is meaningful only while reader.sink() is ok.
/// `files` holds the tables that it names.
Cluster read_cluster(base::Reader& reader, const ClusterFiles& files = {});

}  // namespace espalier::cluster
