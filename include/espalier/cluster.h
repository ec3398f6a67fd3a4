// SPDX-License-Identifier: Apache-2.0
// The hardware of a job: device kinds, nodes, and the fabric between them.
//
// Devices are numbered 0 … N−1, node by node and group by group; the devices of a node are consecutive. The fabric is
// a list of nested levels, innermost first. At a level of span S, devices with equal id / S belong to one domain. Two
// devices communicate over the lowest level whose domain holds both. Example with 2 nodes of 8 H100:
// {"NVSwitch", span 8}, {"rails", span 16}.
//
// A heterogeneous cluster has several groups, each with its own levels. An additional level joins the groups
// (Cluster::inter), or directed links between groups and sites do (Cluster::links). Groups are identified by name,
// and links by their ends ("a-b"). Nodes ("node:3") and devices ("rank:17") are identified by their number in the
// whole cluster. Changes over time (capacity, token buckets, events) are part of the value; espalier/cluster_change.h
// computes the state at a given time. docs/clusters.md describes the file.
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

/// Names the type of matrix products. Under fp8, mxfp8 and nvfp4 the products of blocks read operands that are cast
/// from bf16; all else computes in bf16 (src/cluster/operand_format.h).
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4 };
inline constexpr int kPrecisions = 7;
std::string_view to_string(Precision p);
std::optional<Precision> parse_precision(std::string_view text);

/// Describes how close a device comes to its peaks. The values are priors or fitted (data/calibration/devices.yaml).
/// The equations are in src/cost/operator_cost.h, the ranges in src/cluster/calibration.cpp.
struct DeviceEfficiency {
  double gemm_max = 0.75;      ///< fraction of peak that a large GEMM reaches
  double gemm_memory = 0.75;   ///< fraction of the memory bandwidth at which GEMM operands stream
  double gemm_fp8 = 1.0;       ///< fp8 GEMMs reach gemm_max · this of the fp8 peak; casts are counted apart
  double gemm_batched = 0.85;  ///< small batched GEMMs (scores of unfused attention), relative to gemm_max
  double gemm_grouped = 0.9;   ///< grouped GEMMs of experts, relative to gemm_max
  /// Share of the rates above that training keeps. The rates are measured on isolated kernels with warm caches and
  /// full clocks; power limits and neighbouring kernels lower them.
  double sustained = 0.88;
  double sustained_fp8 = 1.0;  ///< share that 8-bit matrix products keep, relative to `sustained`
  double attention_max = 0.5;  ///< fused attention forward, head size 128, long sequences: fraction of peak
  /// Work per attention score in addition to its two products (exponential, rescaling), in units of head size.
  double attention_softmax = 64;
  /// Overhead of a query, expressed as additional keys: loads, the masked diagonal, the epilogue.
  double attention_prologue = 200;
  /// Queries × heads must reach this number in flight to fill the device; the last blocks run alone.
  double attention_rows = 8000;
  double attention_backward = 0.8;              ///< fused attention backward, relative to its forward rate
  double attention_flash2 = 1.0;                ///< FlashAttention-2, relative to the device's own attention kernels
  double memory_max = 0.8;                      ///< fraction of the memory bandwidth that element-wise kernels reach
  Seconds kernel_launch{4.5e-6};                ///< CPU time to launch one kernel; it limits a stream of small kernels
  Seconds kernel_floor{2.0e-6};                 ///< GPU time of a kernel in addition to its work: start, ramp, tail
  double overlap_compute_slowdown = 1.1;        ///< κ_w: factor on compute while a collective overlaps it
  double overlap_communication_slowdown = 1.1;  ///< κ_c: factor on a collective while compute overlaps it
  /// κ_w grows by this much per unit of (bus rate of the collective / HBM bandwidth); see cost/collective.h.
  double overlap_traffic = 0.0;
  bool measured_overlap = false;  ///< the factors were measured; only then may 1/κ_c + 1/κ_w be below 1
  bool operator==(const DeviceEfficiency&) const = default;
};

/// Describes a device of the catalogue (data/devices.yaml). `sources` names the source of each figure.
struct DeviceKind {
  std::string name;                              ///< catalogue name, e.g. "h100-sxm-80gb"
  std::array<FlopsPerSecond, kPrecisions> peak;  ///< dense peak by Precision; 0: not supported
  Bytes memory;                                  ///< as the driver reports it, not the nominal size
  Bytes context_reserve;                         ///< CUDA context, NCCL channels, cuBLAS workspace: never for tensors
  BytesPerSecond memory_bandwidth;
  DeviceEfficiency efficiency;
  double speed = 1;         ///< relative to the device of the catalogue; set by at_speed()
  bool calibrated = false;  ///< false: priors only, and answers are marked "uncalibrated"
  /// Names the shapes on which the efficiencies were fitted; beyond them, predictions extrapolate. Empty: priors.
  std::string calibration_range;
  std::vector<std::pair<std::string, std::string>> sources;  ///< field -> source of the figure
  [[nodiscard]] FlopsPerSecond peak_of(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
  /// Returns the same device with all computation faster by `factor`: it multiplies rates and divides kernel launches
  /// and shortest kernels. Memory and links do not change.
  [[nodiscard]] DeviceKind at_speed(double factor) const;
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

/// Describes one point of a bandwidth trace. From `at` on, the bandwidth is `bandwidth_factor` × nominal and the
/// latency is `latency_factor` × nominal.
struct LinkChange {
  Seconds at;
  double bandwidth_factor = 1.0;
  double latency_factor = 1.0;
  bool operator==(const LinkChange&) const = default;
};

/// Describes one level of the fabric.
struct FabricLevel {
  std::string name;
  FabricKind kind = FabricKind::other;
  /// Counts the devices in one domain of this level; a multiple of the span below. The outermost span may exceed the
  /// number of devices in the cluster (a rack or pod that is not full).
  std::int64_t span = 1;
  /// Holds the bandwidth per device and direction while all devices of the domain communicate. It includes shared
  /// NICs and oversubscription.
  BytesPerSecond bandwidth;
  BytesPerSecond bandwidth_alone;  ///< one device while the others are idle (≥ bandwidth)
  /// Limits the rate of one pair of devices on direct links (mesh). A group of g reaches min(bandwidth,
  /// (g−1)·per_peer) per device. 0: switched, no such limit.
  BytesPerSecond per_peer;
  Seconds latency;          ///< α of one hop of a small message
  double efficiency = 0.8;  ///< fraction of `bandwidth` that very large collectives reach (bus bandwidth / peak)
  Seconds start;            ///< shortest time of a collective, excluding its hops: launch and first signal
  double ramp = 0.0;        ///< mid-sized messages take + ramp·√(latency part · bandwidth part); 0 … 2
  /// Adds this share of a ring step for a rank's own part: bytes · (1 + small_group/(g−1)), 0 … 1.
  double small_group = 0.0;
  double congestion = 0.0;            ///< bandwidth / (1 + congestion·log2(domains joined)), 0 … 0.5
  bool in_network_reduction = false;  ///< NVLS / SHARP: all-reduce moves each byte once
  /// Above 0, collectives follow Espalier's own runtime: tensors of up to this many bytes go directly from every rank
  /// to every other, and larger ones use rings. It has no trees. 0: collectives follow NCCL.
  double direct_bytes = 0;
  std::vector<LinkChange> trace;  ///< empty: constant
  bool operator==(const FabricLevel&) const = default;
};

/// Describes a device that is faster or slower than its kind. At factor 0.5 all its computation takes twice as
/// long; its links do not change.
struct DeviceSpeed {
  std::int64_t device = 0;  ///< id in the cluster
  double factor = 1.0;      ///< above 0
  bool operator==(const DeviceSpeed&) const = default;
};

/// Describes the host of a node from the point of view of its devices.
struct Host {
  Bytes memory;                     ///< per node
  BytesPerSecond memory_bandwidth;  ///< per node, summed over its channels
  BytesPerSecond link;              ///< one device to host memory, per direction, with all devices active
  /// Holds the figure of the file; 0: not stated. Readers copy it to DeviceEfficiency::kernel_launch, the only figure
  /// that is used.
  Seconds kernel_launch;
  [[nodiscard]] bool known() const { return memory.count() > 0 && memory_bandwidth.count() > 0 && link.count() > 0; }
  bool operator==(const Host&) const = default;
};

/// Describes a group of equal nodes.
struct NodeGroup {
  std::string name;  ///< unique among groups and sites; "a", "b", … by position by default
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 8;
  DeviceKind device;
  std::vector<FabricLevel> intra;  ///< levels inside the node: spans ≤ devices_per_node, the last one equal to it
  /// Holds the levels between the nodes of this group in a heterogeneous cluster; otherwise Cluster::inter holds them.
  std::vector<FabricLevel> inter;
  /// Counts the nodes that the job occupies in each fabric domain that joins several nodes (an NVL72 rack joins 18
  /// trays). The level of that domain spans `segment · devices_per_node` devices. 0: the fabric has no such domain.
  std::int64_t segment = 0;
  std::int64_t domain_nodes = 0;                ///< nodes of such a domain, occupied or not; 0: no such domain
  std::string site;                             ///< location of the nodes ("us-east"); empty: not stated
  std::optional<double> price_per_device_hour;  ///< in Cluster::currency
  /// Lists the kinds of network interface of the nodes ("infiniband"). Empty: not stated, and
  /// compatible with every group.
  std::vector<std::string> nics;
  BytesPerSecond node_bandwidth;   ///< all network interfaces of a node together, per direction; 0: unknown
  Seconds network_latency;         ///< α of one hop over these interfaces
  Host host;                       ///< all 0: unknown
  std::vector<DeviceSpeed> speed;  ///< devices that differ from their kind, by id; all others have factor 1
  bool operator==(const NodeGroup&) const = default;
};

/// Selects what shares the bandwidth of a link between groups or sites.
enum class LinkSharing : std::uint8_t {
  line,       ///< one line: all traffic in this direction shares it
  node,       ///< each node sends and receives at this bandwidth, whichever nodes it exchanges data with
  node_pair,  ///< each node has this bandwidth to each node of the other end, as measured between two machines
};
std::string_view to_string(LinkSharing sharing);

/// Describes one direction between two groups or sites.
struct GroupLink {
  std::string from, to;      ///< names of groups or sites
  BytesPerSecond bandwidth;  ///< reached by bulk transfers; `sharing` states what shares it
  Seconds latency;
  LinkSharing sharing = LinkSharing::line;
  [[nodiscard]] std::string name() const { return from + "-" + to; }
  bool operator==(const GroupLink&) const = default;
};

/// Gives the price of 10^9 bytes that go from one group or site to another.
struct EgressPrice {
  std::string from, to;
  double per_gigabyte = 0.0;  ///< in Cluster::currency
  bool operator==(const EgressPrice&) const = default;
};

/// Describes the capacity of a part of the network over time: nominal before the first change, then nominal ×
/// bandwidth_factor from each change until the next.
struct CapacityTrace {
  /// Names a link "a-b" (that direction), or the network connection of "node:3" or "rank:17" (both directions).
  std::string target;
  std::vector<LinkChange> changes;  ///< by ascending time; with factor 0 no traffic passes
  bool operator==(const CapacityTrace&) const = default;
};

/// Describes a part of the network that runs at `full` while its bucket holds tokens and at `sustained` once the
/// bucket is empty. Each byte takes a token, and tokens arrive at the sustained rate, up to `bucket`. The bucket is
/// full at the start. Clouds shape their links this way (Uta et al., NSDI 2020).
struct TokenBucket {
  std::string target;  ///< as in CapacityTrace
  BytesPerSecond full, sustained;
  Bytes bucket;
  bool operator==(const TokenBucket&) const = default;
};

enum class ClusterEventKind : std::uint8_t {
  join,   ///< a missing node ("node:3") returns, or `value` nodes of a group, lowest numbers first
  leave,  ///< a node leaves, or `value` nodes of a group, highest numbers first
  slow,   ///< computation on a node or device takes value × its usual time from now on (1: the usual time again)
  link,   ///< a link, or the network connection of a node or device, has value × its nominal bandwidth from now on
  route,  ///< traffic of a link goes through another group or site (`via`) from now on; empty: directly again
};
std::string_view to_string(ClusterEventKind kind);

/// Describes one change of the cluster. All nodes are present at the start, unless an event at time 0 states otherwise.
struct ClusterEvent {
  Seconds at;
  ClusterEventKind kind = ClusterEventKind::leave;
  std::string target;  ///< "node:3", "rank:17", a group "a" or a link "a-b", as the kind requires
  double value = 1.0;
  std::string via;  ///< for `route` only
  bool operator==(const ClusterEvent&) const = default;
};

/// Describes how the devices of one group reach those of another.
struct GroupPath {
  /// Lists positions in Cluster::links, in order. Empty: the path stays inside one group or
  /// site, or uses Cluster::inter.
  std::vector<std::size_t> links;
  BytesPerSecond bandwidth;  ///< reached by one node alone; the slowest link and both interfaces limit it
  Seconds latency;           ///< sum over the links; without links, the latency of the level that joins the groups
};

/// Describes a whole cluster. Uniform plans need exactly one group; DeviceChoice
/// (search_space.h) admits plans on several.
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  /// Lists the levels between nodes, innermost first; empty for one node. In a heterogeneous
  /// cluster they join the groups.
  std::vector<FabricLevel> inter;
  std::optional<Bytes> memory_limit;  ///< the user's cap per device
  std::vector<std::string> notes;     ///< defaults that were filled in, for `inspect cluster`
  /// Lists the links that join groups and sites of a heterogeneous cluster: in any order, at most one per ordered pair.
  /// Empty: `inter` joins them. With links, `inter` still holds one level, and no pair of groups is slower than it.
  std::vector<GroupLink> links;
  std::vector<EgressPrice> egress;  ///< pairs without an entry cost nothing
  std::string currency = "USD";     ///< unit of all prices
  std::vector<CapacityTrace> capacity;
  std::vector<TokenBucket> token_buckets;
  std::vector<ClusterEvent> events;  ///< by ascending time; events at equal times all apply, in this order

  [[nodiscard]] std::int64_t devices() const;
  [[nodiscard]] std::int64_t nodes() const;
  [[nodiscard]] std::int64_t first_device(std::size_t group) const;
  [[nodiscard]] std::int64_t first_node(std::size_t group) const;
  [[nodiscard]] std::size_t group_of(std::int64_t device) const;
  [[nodiscard]] std::size_t group_of_node(std::int64_t node) const;
  [[nodiscard]] std::int64_t node_of(std::int64_t device) const;
  [[nodiscard]] std::int64_t first_device_of_node(std::int64_t node) const;
  /// Returns the speed relative to the device's kind; 1 for most devices.
  [[nodiscard]] double speed_of(std::int64_t device) const;
  /// Returns the lowest speed of devices first … first + count − 1.
  [[nodiscard]] double slowest_of(std::int64_t first, std::int64_t count) const;
  /// Returns the names of all sites, ordered by their first group.
  [[nodiscard]] std::vector<std::string> sites() const;
  [[nodiscard]] std::optional<std::size_t> group_called(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> link_called(std::string_view name) const;  ///< "a-b"
  /// Returns the direct link if there is one, otherwise the links of least latency (then the fewest). Without links
  /// it returns the level that joins the groups; within one group, the outermost level of that group.
  [[nodiscard]] GroupPath path(std::size_t from_group, std::size_t to_group) const;
  /// Returns the price of a gigabyte from one group to another: that of the pair of groups, otherwise that of their
  /// sites, or 0 where neither is stated.
  [[nodiscard]] double egress_price(std::size_t from_group, std::size_t to_group) const;
  /// Returns one node group as a separate cluster. All its devices are as fast as their kind, nothing changes over
  /// time, and traffic has no price.
  [[nodiscard]] Cluster alone(std::size_t group) const;
  /// Returns whether some device differs from its kind.
  [[nodiscard]] bool has_speeds() const;
  /// Returns whether links or nodes change during training: capacity, token buckets, events, or traces of levels.
  [[nodiscard]] bool changes() const;
  [[nodiscard]] bool homogeneous() const { return groups.size() == 1; }
  /// Returns whether the cluster is one group of devices that are all as fast as their kind.
  [[nodiscard]] bool equal_devices() const { return homogeneous() && !has_speeds(); }
  /// Returns the intra-node levels of group 0, then `inter`: the fabric of a homogeneous cluster.
  [[nodiscard]] std::vector<FabricLevel> levels() const;
  /// Returns the bytes that a plan may use on each device of a group: min(memory − context_reserve, memory_limit).
  [[nodiscard]] Bytes usable_memory(std::size_t group = 0) const;
  bool operator==(const Cluster&) const = default;
};

/// Returns the device catalogue that ships with Espalier (data/devices.yaml, compiled in), sorted by name.
const std::vector<DeviceKind>& device_catalogue();
/// Returns the device with this catalogue name, or null.
const DeviceKind* find_device(std::string_view name);
/// Finds a device by a name that drivers print or people write: "NVIDIA H100 80GB HBM3", "A100-SXM4-80GB" (`also` in
/// data/devices.yaml). Case, spaces, '-', '_' and the vendor's name are ignored. Returns null for a name that
/// several devices share ("H100").
const DeviceKind* device_called(std::string_view name);

/// Identifies the object that "a", "node:3", "rank:17" or "a-b" names.
struct ClusterTarget {
  enum class Kind : std::uint8_t { group, node, device, link };
  Kind kind = Kind::group;
  std::int64_t index = 0;  ///< number of the group, node or device, or position in Cluster::links
  bool operator==(const ClusterTarget&) const = default;
};
/// Resolves a name. Fails with bad_input and suggests the nearest names; messages begin with `where`.
Result<ClusterTarget> target_called(const Cluster& cluster, std::string_view name, const std::string& where);

/// Reads a cluster file (YAML or JSON): the short form `{nodes, devices_per_node, device, …}` or the full
/// form with `groups`. Files that it names (matrix, capacity, events) are read from below `folder`;
/// without a folder they are rejected.
Result<Cluster> load_cluster(std::string_view text, const std::string& where, const std::string& folder = "");
Result<Cluster> load_cluster_file(const std::string& path);

}  // namespace espalier
