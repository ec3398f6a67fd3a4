// SPDX-License-Identifier: Apache-2.0
// Converts the links of one node, as nvidia-smi or NCCL show them, to levels of a cluster.
//
//   NVLinks between all pairs     They make one level. It is a switch where the count of a pair equals the links of a
//                                 device, or the pairs together have more than a device has: bandwidth count · rate.
//                                 Otherwise the links are direct: bandwidth min(links, Σ counts) · rate, and
//                                 count · rate to each peer.
//   NVLinks between some pairs    They make groups, where these are equal runs of neighbours. Above them is PCIe.
//   PCIe                          It makes a level for the devices below one switch (PIX, PXB), one below one processor
//                                 (PHB, NODE), and one between processors (SYS). The rate of x16 by generation is
//                                 15.75, 31.5 or 63 GB/s. Between processors the rates are those of NCCL 2.30.7
//                                 (graph/topo.h): 10 GB/s Skylake, 22 Sapphire Rapids, 16 AMD, 6 Broadwell and ARM.
// Rates per direction are 25 GB/s for an NVLink (generations 2 to 4) and 50 GB/s (5). An Infinity Fabric link has 64
// GB/s (MI300X, MI325X) or 76.8 GB/s (MI355X). The sources are those of data/devices.yaml.
// Where a level equals that of the device's usual node, the usual figures stay, since they are fitted. They also stay
// where a table may hide the links: `nvidia-smi topo -mp` prints only PCIe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/imported_cluster.h"

namespace espalier::exchange {

inline constexpr double kGB = 1e9;  ///< bytes
inline constexpr std::size_t kMostNodeDevices = 64;
/// Returns 3 for "GPU3"; nothing where the word is not a device of a node.
std::optional<std::size_t> gpu_of(std::string_view word);

/// Describes how near two devices are over PCIe.
enum class PciePath : std::uint8_t { same, pix, pxb, phb, node, sys };

/// Describes whether a table shows the links between devices beyond PCIe.
enum class LinksShown : std::uint8_t { yes, no, unknown };

struct FoundNic {
  std::string name;
  double bandwidth = 0;        ///< bytes/s; 0: not given
  std::vector<PciePath> path;  ///< to each device
};

struct NodeLinks {
  std::vector<std::vector<std::int64_t>> nvlinks;  ///< between pairs; through a switch: links of the device
  std::vector<std::vector<PciePath>> path;
  std::vector<FoundNic> nics;
  LinksShown shown = LinksShown::yes;
  std::string link_name = "NVLink";  ///< name of one link, for messages
  bool switched = false;             ///< the file states that NVLinks end in a switch
  double pcie = 0;                   ///< bytes/s of a device's slot; 0: from the device's generation
  double socket = 0;                 ///< bytes/s between processors; 0: not given
  [[nodiscard]] std::size_t devices() const { return path.size(); }
};

/// Returns the cluster of `nodes` such nodes.
Result<ImportedCluster> cluster_of(const NodeLinks& links, const ClusterRequest& request);

}  // namespace espalier::exchange
