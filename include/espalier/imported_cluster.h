// SPDX-License-Identifier: Apache-2.0
// Clusters as other tools describe them: what nvidia-smi, rocm-smi and NCCL say of the links of a node, and what Slurm
// says of the nodes. The result is a cluster of equal nodes; `notes` says what was found, what was assumed and on what
// ground.
//
//   auto found = find_cluster_format("nvidia-smi-topo")->read({"topo.txt", text, "h100-sxm-80gb", 4});
//   std::string yaml = cluster_file(found->cluster, found->notes);      // loadable: load_cluster(), inspect cluster
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/result.h"

namespace espalier {

struct ClusterRequest {
  std::string name, text;             ///< what messages call the file, and its bytes
  std::string device;                 ///< a name of the catalogue; empty: as the file says, where it does
  std::int64_t nodes = 0;             ///< 0: as the file says, else 1
  std::int64_t devices_per_node = 0;  ///< 0: as the file says, else the device's usual node
  double nic_bandwidth = 0;           ///< bytes/s of one network interface; 0: as the file says, else the device's
                                      ///< usual one
  double oversubscription = 1;        ///< of the links above a leaf switch
  std::string hosts;                  ///< the job's part of a cluster: a host list; empty: all of it
};

struct ImportedCluster {
  Cluster cluster;
  std::vector<std::string> notes;
};

struct ClusterFormat {
  std::string name;   ///< "nvidia-smi-topo", "nccl-xml", "slurm-hosts", "slurm-topology", "rocm-smi-topo"
  std::string reads;  ///< for people
  /// bad_input: the text is not such a description; the message has its line, what was found and what was expected.
  Result<ImportedCluster> (*read)(const ClusterRequest& request) = nullptr;
};
const std::vector<ClusterFormat>& cluster_formats();
/// nullptr where there is none.
const ClusterFormat* find_cluster_format(std::string_view name);

/// Nodes of the device's usual kind: 0 devices a node are the usual number.
Result<Cluster> usual_cluster(const std::string& device, std::int64_t nodes, std::int64_t devices_per_node);
/// A cluster of equal nodes as a cluster file in full form, notes as comments. bad_input: it has what the full form
/// cannot say.
Result<std::string> cluster_file(const Cluster& cluster, const std::vector<std::string>& notes);

}  // namespace espalier
