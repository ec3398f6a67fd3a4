// SPDX-License-Identifier: Apache-2.0
// Reads other tools' descriptions of a cluster: nvidia-smi, rocm-smi and NCCL describe the links of a node, and Slurm
// describes the nodes. The result is a cluster of equal nodes. Its `notes` state what was found, what was assumed and
// why.
//
//   auto found = exchange::find_cluster_format("nvidia-smi-topo")->read({"topo.txt", text, "h100-sxm-80gb", 4});
//   std::string yaml = exchange::cluster_file(found->cluster, found->notes);   // for load_cluster()
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// Holds the file to read, and figures that it may not state.
struct ClusterRequest {
  std::string name, text;                        ///< name in messages, and contents
  std::string device;                            ///< catalogue name; empty: as the file states, if it does
  std::optional<std::int64_t> nodes;             ///< none: as the file states, otherwise 1
  std::optional<std::int64_t> devices_per_node;  ///< none: as the file states, otherwise the device's usual node
  /// Rate of one network interface; none: the rate that the file states, otherwise the device's usual one.
  std::optional<BytesPerSecond> nic_bandwidth;
  double oversubscription = 1;  ///< on the links above a leaf switch
  std::string hosts;            ///< host list of the job's part of a cluster; empty: the whole cluster
};

/// Holds a cluster of equal nodes, and how it was derived.
struct ImportedCluster {
  Cluster cluster;
  std::vector<std::string> notes;
};

/// Describes a format of cluster descriptions.
struct ClusterFormat {
  std::string name;   ///< "nvidia-smi-topo", "nccl-xml", "slurm-hosts", "slurm-topology", "rocm-smi-topo"
  std::string reads;  ///< shown to users
  /// Fails with bad_input when the text is not such a description. The message gives the line, what was
  /// found and what was expected.
  Result<ImportedCluster> (*read)(const ClusterRequest& request) = nullptr;
};
const std::vector<ClusterFormat>& cluster_formats();
/// Returns the format of this name, or null.
const ClusterFormat* find_cluster_format(std::string_view name);

/// Returns a cluster with nodes that are usual for the device, with the usual number of devices unless one is given.
Result<Cluster> usual_cluster(const std::string& device, std::int64_t nodes,
                              std::optional<std::int64_t> devices_per_node = std::nullopt);
/// Writes a cluster of equal nodes as a cluster file in full form, with the notes as comments. Fails with bad_input
/// for a cluster that the full form cannot express.
Result<std::string> cluster_file(const Cluster& cluster, const std::vector<std::string>& notes);

}  // namespace espalier::exchange
