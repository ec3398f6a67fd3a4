// SPDX-License-Identifier: Apache-2.0
// The links of one node, as nvidia-smi or NCCL show them, made into levels of a cluster.
//
//   NVLinks between all pairs     one level. Count of a pair = links of a device, or more pairs than a device has
//                                 links: a switch, bandwidth
//                                 count · rate. Else direct links: bandwidth min(links, Σ counts) · rate, count · rate
//                                 to each peer
//   NVLinks between some pairs    groups that are joined by them, where these are equal runs of neighbours; above them
//                                 PCIe
//   PCIe                          a level for the devices below one switch (PIX, PXB), one below one processor (PHB,
//                                 NODE), one between
//                                 processors (SYS). x16 of the device's generation: 15.75, 31.5, 63 GB/s. Between
//                                 processors what NCCL 2.30.7
//                                 counts (graph/topo.h): 10 GB/s Skylake, 22 Sapphire Rapids, 16 AMD, 6 Broadwell and
//                                 ARM
// Rates of one NVLink and direction: 25 GB/s (generations 2 to 4), 50 GB/s (5); of one Infinity Fabric link 64 GB/s
// (MI300X, MI325X), 76.8 GB/s (MI355X): sources of data/devices.yaml. Where a level is what the device's usual node
// has, the usual figures stay, since they are fitted. They stay as well where a table may hide the links: `nvidia-smi
// topo -mp` prints PCIe alone.
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
/// "GPU3" -> 3; nothing where it is no device of a node.
std::optional<std::size_t> gpu_of(std::string_view word);

/// How near two devices are over PCIe.
enum class PciePath : std::uint8_t { same, pix, pxb, phb, node, sys };

/// Whether a table shows the links between devices beyond PCIe.
enum class LinksShown : std::uint8_t { yes, no, unknown };

struct FoundNic {
  std::string name;
  double bandwidth = 0;        ///< bytes/s; 0: not said
  std::vector<PciePath> path;  ///< to each device
};

struct NodeLinks {
  std::vector<std::vector<std::int64_t>> nvlinks;  ///< between pairs; through a switch: of the device
  std::vector<std::vector<PciePath>> path;
  std::vector<FoundNic> nics;
  LinksShown shown = LinksShown::yes;
  std::string link_name = "NVLink";  ///< of one link, for people
  bool switched = false;             ///< NVLinks end in a switch, the file says so
  double pcie = 0;                   ///< bytes/s of a device's slot; 0: as the device's generation
  double socket = 0;                 ///< bytes/s between processors; 0: not said
  [[nodiscard]] std::size_t devices() const { return path.size(); }
};

/// The cluster of `nodes` such nodes.
Result<ImportedCluster> cluster_of(const NodeLinks& links, const ClusterRequest& request);

}  // namespace espalier::exchange
