// SPDX-License-Identifier: Apache-2.0
// What it is trained on: device kinds, nodes, and the fabric between them.
//
// Devices are numbered 0 … N−1, node by node, group by group; a node's devices are consecutive. The fabric is a list of nested
// levels, innermost first. At a level of span S, devices with equal id / S belong to one domain; two devices talk over the
// lowest level whose domain holds both. Example, 2 nodes of 8 H100: {"NVSwitch", span 8}, {"rails", span 16}.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"
#include "espalier/units.h"

namespace espalier {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };
inline constexpr int kPrecisions = 5;
std::string_view to_string(Precision p);
std::optional<Precision> parse_precision(std::string_view text);

/// How well a device reaches its peaks: priors, or fitted (data/calibration/devices.yaml); equations in src/cost/operator_cost.h,
/// ranges in src/cluster/calibration.cpp.
struct DeviceEfficiency {
  double gemm_max = 0.75;      ///< fraction of peak that a large GEMM reaches
  double gemm_memory = 0.75;   ///< fraction of the memory bandwidth at which GEMM operands stream
  double gemm_fp8 = 1.0;       ///< an fp8 GEMM reaches gemm_max · this of the fp8 peak (casts are counted apart)
  double gemm_batched = 0.85;  ///< batched small GEMMs (scores of unfused attention) relative to gemm_max
  double gemm_grouped = 0.9;   ///< grouped GEMMs of experts relative to gemm_max
  double sustained = 0.88;  ///< what training keeps of the rates above: they are read off isolated kernels with warm caches and
                            ///< full clocks; under power limits and between other kernels less remains
  double attention_max = 0.5;       ///< fused attention forward, head size 128, long sequences: fraction of peak
  double attention_softmax = 64;    ///< work on a score beside its two products (exponential, rescaling), in units of head size
  double attention_prologue = 200;  ///< keys that a query costs beside those it attends to: loads, the masked diagonal, epilogue
  double attention_rows = 8000;     ///< queries × heads that must be in flight to fill the device (the last blocks run alone)
  double attention_backward = 0.8;  ///< fused attention backward relative to its forward rate
  double attention_flash2 = 1.0;    ///< rate of FlashAttention-2 relative to the device's own attention kernels
  double memory_max = 0.8;          ///< fraction of the memory bandwidth that element-wise kernels reach
  Seconds kernel_launch{4.5e-6};    ///< CPU time to launch one kernel; a stream of small kernels is bound by it
  Seconds kernel_floor{2.0e-6};     ///< time a kernel occupies the GPU besides its work: start, ramp, tail
  double overlap_compute_slowdown = 1.1;        ///< κ_w: compute while a collective runs beside it takes this much longer
  double overlap_communication_slowdown = 1.1;  ///< κ_c: a collective while compute runs beside it
  double overlap_traffic = 0.0;  ///< κ_w grows by this per unit of (collective's bus rate / HBM bandwidth); see cost/collective.h
  bool measured_overlap = false;  ///< only measured factors may be so strong that 1/κ_c + 1/κ_w < 1
  bool operator==(const DeviceEfficiency&) const = default;
};

/// A device as catalogued in data/devices.yaml. `sources` says where each figure is from.
struct DeviceKind {
  std::string name;                              ///< catalogue name, e.g. "h100-sxm-80gb"
  std::array<FlopsPerSecond, kPrecisions> peak;  ///< dense peak by Precision; 0 = not supported
  Bytes memory;                                  ///< what the driver reports, not the nominal size
  Bytes context_reserve;                         ///< CUDA context, NCCL channels, cuBLAS workspace: never available to tensors
  BytesPerSecond memory_bandwidth;
  DeviceEfficiency efficiency;
  bool calibrated = false;  ///< false: priors only, the answer says "uncalibrated"
  std::string
      calibration_range;  ///< shapes that the efficiencies were fitted on; beyond them predictions extrapolate. Empty: priors
  std::vector<std::pair<std::string, std::string>> sources;  ///< field -> where the figure is from
  [[nodiscard]] FlopsPerSecond peak_of(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
  bool operator==(const DeviceKind&) const = default;
};

enum class FabricKind : std::uint8_t {
  nvswitch,
  nvlink_mesh,
  pcie_tree,
  nvl72,
  rail_optimized,
  fat_tree,
  ethernet,
  on_chip,
  other
};
std::string_view to_string(FabricKind k);

/// One point of a bandwidth trace: from `at` on, bandwidth is `factor` × nominal (and latency `latency_factor` ×).
struct LinkChange {
  Seconds at;
  double bandwidth_factor = 1.0;
  double latency_factor = 1.0;
  bool operator==(const LinkChange&) const = default;
};

/// One level of the fabric.
struct FabricLevel {
  std::string name;
  FabricKind kind = FabricKind::other;
  std::int64_t span = 1;           ///< devices in one domain of this level; a multiple of the level below. The outermost one may
                                   ///< exceed the devices of the cluster (a rack or pod that is not full)
  BytesPerSecond bandwidth;        ///< per device and direction when all devices of the domain talk at once (NICs shared,
                                   ///< oversubscription applied)
  BytesPerSecond bandwidth_alone;  ///< one device talking alone (≥ bandwidth): e.g. a NIC that is otherwise shared
  BytesPerSecond per_peer;         ///< direct links (mesh): most that one pair of devices can move; a group of g reaches
                                   ///< min(bandwidth, (g−1)·per_peer) per device. 0 = switched, no such limit
  Seconds latency;                 ///< α of one hop of a small message
  double efficiency = 0.8;         ///< fraction of `bandwidth` that very large collectives reach (bus bandwidth / peak)
  Seconds start;                   ///< shortest time of a collective over this level, without its hops: launch and first signal
  double ramp = 0.0;               ///< loss of middle-sized messages: + ramp·√(latency part · bandwidth part), 0 … 2
  double small_group = 0.0;  ///< share of a ring step that a rank's own part costs: bytes · (1 + small_group/(g−1)), 0 … 1
  double congestion = 0.0;   ///< bandwidth / (1 + congestion·log2(domains joined)), 0 … 0.5
  bool in_network_reduction = false;  ///< NVLS / SHARP: all-reduce moves each byte once
  std::vector<LinkChange> trace;      ///< empty = constant
  bool operator==(const FabricLevel&) const = default;
};

/// A run of equal nodes.
struct NodeGroup {
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 8;
  DeviceKind device;
  std::vector<FabricLevel> intra;  ///< levels inside the node (span ≤ devices_per_node, last one = devices_per_node)
  std::vector<FabricLevel> inter;  ///< mixed clusters only: levels between the nodes of this group; else in Cluster::inter
  /// Nodes that the job occupies of each fabric domain that joins several nodes (an NVL72 rack joins 18 trays), so that the level of
  /// that domain spans `segment · devices_per_node` devices. 0: the fabric has no such domain.
  std::int64_t segment = 0;
  std::int64_t domain_nodes = 0;  ///< nodes that such a domain has, occupied or not; 0: there is none
  bool operator==(const NodeGroup&) const = default;
};

/// A cluster. Uniform planning needs exactly one group (unequal devices are planned by a later capability).
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  std::vector<FabricLevel> inter;     ///< levels between nodes, innermost first; empty for one node. Mixed: joins the groups
  std::optional<Bytes> memory_limit;  ///< user's cap per device
  std::vector<std::string> notes;     ///< defaults that were filled in, for `inspect cluster`

  [[nodiscard]] std::int64_t devices() const;
  [[nodiscard]] bool homogeneous() const { return groups.size() == 1; }
  /// Intra-node levels of group 0, then inter levels: the fabric seen by a homogeneous cluster.
  [[nodiscard]] std::vector<FabricLevel> levels() const;
  /// Bytes a plan may use on each device of a group: min(memory − context_reserve, memory_limit).
  [[nodiscard]] Bytes usable_memory(std::size_t group = 0) const;
  bool operator==(const Cluster&) const = default;
};

/// The device catalogue that ships with Espalier (data/devices.yaml, compiled in), sorted by name.
const std::vector<DeviceKind>& device_catalogue();
/// nullptr when unknown.
const DeviceKind* find_device(std::string_view name);
/// The same by what drivers print and people write: "NVIDIA H100 80GB HBM3", "A100-SXM4-80GB" (`also` in data/devices.yaml). Case,
/// spaces, '-', '_' and the maker's name do not count. A name that several devices share ("H100") is none of them: nullptr.
const DeviceKind* device_called(std::string_view name);

/// Reads a cluster file (YAML or JSON): the short form `{nodes, devices_per_node, device, …}` or the full form with `groups`.
Result<Cluster> load_cluster(std::string_view text, const std::string& where);
Result<Cluster> load_cluster_file(const std::string& path);

}  // namespace espalier
