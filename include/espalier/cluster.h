// SPDX-License-Identifier: Apache-2.0
// What it is trained on: device kinds, nodes, and the fabric between them.
//
// Devices are numbered 0 … N−1, node by node, group by group; a node's devices are consecutive. The fabric is a list of
// nested levels, innermost first. At a level of span S, devices with equal id / S belong to one domain; two devices
// talk over the lowest level whose domain holds both. Example, 2 nodes of 8 H100: {"NVSwitch", span 8}, {"rails", span
// 16}.
//
// A mixed cluster has several groups. Each has levels of its own; what joins them is one more level (Cluster::inter),
// or directed links between groups and sites (Cluster::links). Groups are called by their name, nodes "node:3" and
// devices "rank:17" by their number in the whole cluster, links "a-b". What changes over time (capacity, token buckets,
// events) is part of the value; espalier/cluster_change.h says what holds at a moment. docs/clusters.md describes the
// file.
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

/// How well a device reaches its peaks: priors, or fitted (data/calibration/devices.yaml); equations in
/// src/cost/operator_cost.h, ranges in src/cluster/calibration.cpp.
struct DeviceEfficiency {
  double gemm_max = 0.75;                 ///< fraction of peak that a large GEMM reaches
  double gemm_memory = 0.75;              ///< fraction of the memory bandwidth at which GEMM operands stream
  double gemm_fp8 = 1.0;                  ///< an fp8 GEMM reaches gemm_max · this of the fp8 peak (casts are counted apart)
  double gemm_batched = 0.85;             ///< batched small GEMMs (scores of unfused attention) relative to gemm_max
  double gemm_grouped = 0.9;              ///< grouped GEMMs of experts relative to gemm_max
  double sustained = 0.88;                ///< what training keeps of the rates above: they are read off isolated kernels with
                                          ///< warm
                                          ///< caches and
                                          ///< full clocks; under power limits and between other kernels less remains
  double sustained_fp8 = 1.0;             ///< what 8-bit matrix products keep relative to `sustained`
  double attention_max = 0.5;             ///< fused attention forward, head size 128, long sequences: fraction of peak
  double attention_softmax = 64;          ///< work on a score beside its two products (exponential, rescaling), in units of
                                          ///< head size
  double attention_prologue = 200;        ///< keys that a query costs beside those it attends to: loads, the masked diagonal,
                                          ///< epilogue
  double attention_rows = 8000;           ///< queries × heads that must be in flight to fill the device (the last blocks run
                                          ///< alone)
  double attention_backward = 0.8;        ///< fused attention backward relative to its forward rate
  double attention_flash2 = 1.0;          ///< rate of FlashAttention-2 relative to the device's own attention kernels
  double memory_max = 0.8;                ///< fraction of the memory bandwidth that element-wise kernels reach
  Seconds kernel_launch{4.5e-6};          ///< CPU time to launch one kernel; a stream of small kernels is bound by it
  Seconds kernel_floor{2.0e-6};           ///< time a kernel occupies the GPU besides its work: start, ramp, tail
  double overlap_compute_slowdown = 1.1;  ///< κ_w: compute while a collective runs beside it takes this much
                                          ///< longer
  double overlap_communication_slowdown = 1.1;  ///< κ_c: a collective while compute runs beside it
  double overlap_traffic = 0.0;                 ///< κ_w grows by this per unit of (collective's bus rate / HBM
                                                ///< bandwidth); see
                                                ///< cost/collective.h
  bool measured_overlap = false;                ///< only measured factors may be so strong that 1/κ_c + 1/κ_w < 1
  bool operator==(const DeviceEfficiency&) const = default;
};

/// A device as catalogued in data/devices.yaml. `sources` says where each figure is from.
struct DeviceKind {
  std::string name;                              ///< catalogue name, e.g. "h100-sxm-80gb"
  std::array<FlopsPerSecond, kPrecisions> peak;  ///< dense peak by Precision; 0 = not supported
  Bytes memory;                                  ///< what the driver reports, not the nominal size
  Bytes context_reserve;                         ///< CUDA context, NCCL channels, cuBLAS workspace: never available to
                                                 ///< tensors
  BytesPerSecond memory_bandwidth;
  DeviceEfficiency efficiency;
  double speed = 1;               ///< relative to the catalogue's device, as at_speed() left it
  bool calibrated = false;        ///< false: priors only, the answer says "uncalibrated"
  std::string calibration_range;  ///< shapes that the efficiencies were fitted on; beyond them predictions extrapolate.
                                  ///< Empty:
                                  ///< priors
  std::vector<std::pair<std::string, std::string>> sources;  ///< field -> where the figure is from
  [[nodiscard]] FlopsPerSecond peak_of(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
  /// The same device when all that it computes takes 1/factor of the time: rates times factor, launches and shortest
  /// kernels divided by it. Its memory and its links are as they are.
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
  std::int64_t span = 1;              ///< devices in one domain of this level; a multiple of the level below. The
                                      ///< outermost one may
                                      ///< exceed the devices of the cluster (a rack or pod that is not full)
  BytesPerSecond bandwidth;           ///< per device and direction when all devices of the domain talk at once (NICs
                                      ///< shared,
                                      ///< oversubscription applied)
  BytesPerSecond bandwidth_alone;     ///< one device talking alone (≥ bandwidth): e.g. a NIC that is otherwise shared
  BytesPerSecond per_peer;            ///< direct links (mesh): most that one pair of devices can move; a group of g
                                      ///< reaches
                                      ///< min(bandwidth, (g−1)·per_peer) per device. 0 = switched, no such limit
  Seconds latency;                    ///< α of one hop of a small message
  double efficiency = 0.8;            ///< fraction of `bandwidth` that very large collectives reach (bus bandwidth / peak)
  Seconds start;                      ///< shortest time of a collective over this level, without its hops: launch and
                                      ///< first signal
  double ramp = 0.0;                  ///< loss of middle-sized messages: + ramp·√(latency part · bandwidth part), 0 … 2
  double small_group = 0.0;           ///< share of a ring step that a rank's own part costs: bytes · (1 +
                                      ///< small_group/(g−1)), 0
                                      ///< … 1
  double congestion = 0.0;            ///< bandwidth / (1 + congestion·log2(domains joined)), 0 … 0.5
  bool in_network_reduction = false;  ///< NVLS / SHARP: all-reduce moves each byte once
  /// Above 0: collectives are those of Espalier's runtime, from everyone to everyone up to so many bytes of the whole
  /// tensor, beyond them rings, no trees. 0: as NCCL.
  double direct_bytes = 0;
  std::vector<LinkChange> trace;  ///< empty = constant
  bool operator==(const FabricLevel&) const = default;
};

/// A device that is faster or slower than its kind. At factor 0.5 all that it computes takes twice as long; its links
/// are as they are.
struct DeviceSpeed {
  std::int64_t device = 0;  ///< id in the cluster
  double factor = 1.0;      ///< above 0
  bool operator==(const DeviceSpeed&) const = default;
};

/// The host of a node, as devices see it.
struct Host {
  Bytes memory;                     ///< of the node
  BytesPerSecond memory_bandwidth;  ///< of the node, as its channels add up
  BytesPerSecond link;              ///< of one device to host memory, per direction, when all devices of the node talk
                                    ///< at once
  Seconds kernel_launch;            ///< as stated; 0: not. What counts is DeviceEfficiency::kernel_launch, to which
                                    ///< readers copy
                                    ///< it
  [[nodiscard]] bool known() const { return memory.count() > 0 && memory_bandwidth.count() > 0 && link.count() > 0; }
  bool operator==(const Host&) const = default;
};

/// A run of equal nodes.
struct NodeGroup {
  std::string name;  ///< "a", "b", … by place unless the file names it; unlike all other names of groups and sites
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 8;
  DeviceKind device;
  std::vector<FabricLevel> intra;  ///< levels inside the node (span ≤ devices_per_node, last one = devices_per_node)
  std::vector<FabricLevel> inter;  ///< mixed clusters only: levels between the nodes of this group; else in
                                   ///< Cluster::inter
  /// Nodes that the job occupies of each fabric domain that joins several nodes (an NVL72 rack joins 18 trays), so that
  /// the level of that domain spans `segment · devices_per_node` devices. 0: the fabric has no such domain.
  std::int64_t segment = 0;
  std::int64_t domain_nodes = 0;                ///< nodes that such a domain has, occupied or not; 0: there is none
  std::string site;                             ///< where the nodes stand ("us-east"); empty: not stated
  std::optional<double> price_per_device_hour;  ///< in Cluster::currency
  std::vector<std::string>
      nics;  ///< kinds of network interface of its nodes ("infiniband"); empty: not stated, talks to everybody
  BytesPerSecond node_bandwidth;   ///< what all network interfaces of one node reach together, per direction; 0: not
                                   ///< known
  Seconds network_latency;         ///< α of one hop over them
  Host host;                       ///< all 0: not known
  std::vector<DeviceSpeed> speed;  ///< its devices that are unlike their kind, by id; all others have factor 1
  bool operator==(const NodeGroup&) const = default;
};

/// Who shares the bandwidth of a link between groups or sites.
enum class LinkSharing : std::uint8_t {
  line,       ///< one line: all that goes this way shares it
  node,       ///< each node has that much, sending and receiving, whichever nodes it talks to at the other end
  node_pair,  ///< each node has that much to each node of the other end: what a measurement between two machines says
};
std::string_view to_string(LinkSharing sharing);

/// One direction between two groups or sites.
struct GroupLink {
  std::string from, to;      ///< names of groups or sites
  BytesPerSecond bandwidth;  ///< what bulk transfers reach; of whom: `sharing`
  Seconds latency;
  LinkSharing sharing = LinkSharing::line;
  [[nodiscard]] std::string name() const { return from + "-" + to; }
  bool operator==(const GroupLink&) const = default;
};

/// What each 10^9 bytes cost that go from one group or site to another.
struct EgressPrice {
  std::string from, to;
  double per_gigabyte = 0.0;  ///< in Cluster::currency
  bool operator==(const EgressPrice&) const = default;
};

/// Capacity of a part of the network over time: from each change on until the next, nominal × bandwidth_factor; nominal
/// before the first.
struct CapacityTrace {
  std::string target;  ///< a link "a-b", that direction; "node:3" or "rank:17": its way to the network, both directions
  std::vector<LinkChange> changes;  ///< ascending times; factor 0: nothing gets through
  bool operator==(const CapacityTrace&) const = default;
};

/// A part of the network that gives `full` while its bucket holds tokens and `sustained` once it is empty. Each byte
/// takes a token and tokens come in at the sustained rate, up to `bucket`; it is full at the start. Clouds shape their
/// links so (Uta et al., NSDI 2020).
struct TokenBucket {
  std::string target;  ///< as of CapacityTrace
  BytesPerSecond full, sustained;
  Bytes bucket;
  bool operator==(const TokenBucket&) const = default;
};

enum class ClusterEventKind : std::uint8_t {
  join,   ///< a node that was away is back ("node:3"), or `value` nodes of a group, those with the lowest numbers first
  leave,  ///< a node goes, or `value` nodes of a group, those with the highest numbers first
  slow,   ///< what a node or device computes takes value × its usual time from now on (1: as usual again)
  link,   ///< a link, or the way of a node or device to the network, has value × its nominal bandwidth from now on
  route,  ///< traffic of a link goes by way of another group or site (`via`) from now on; empty: directly again
};
std::string_view to_string(ClusterEventKind kind);

/// Something that happens to the cluster. All nodes are there at the start, unless an event at time 0 says otherwise.
struct ClusterEvent {
  Seconds at;
  ClusterEventKind kind = ClusterEventKind::leave;
  std::string target;  ///< "node:3", "rank:17", a group "a", or a link "a-b": what the kind speaks of
  double value = 1.0;
  std::string via;  ///< route only
  bool operator==(const ClusterEvent&) const = default;
};

/// How the devices of one group reach those of another.
struct GroupPath {
  std::vector<std::size_t> links;  ///< places in Cluster::links, in order; empty: inside one group or site, or over
                                   ///< Cluster::inter
  BytesPerSecond bandwidth;        ///< what one node reaches that talks alone: the slowest link, and the interfaces of
                                   ///< both
                                   ///< ends
  Seconds latency;                 ///< of all links of the way together; without links that of the level between
};

/// A cluster. Uniform planning needs exactly one group (unequal devices are planned by a later capability).
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  std::vector<FabricLevel> inter;     ///< levels between nodes, innermost first; empty for one node. Mixed: joins the
                                      ///< groups
  std::optional<Bytes> memory_limit;  ///< user's cap per device
  std::vector<std::string> notes;     ///< defaults that were filled in, for `inspect cluster`
  /// Mixed clusters: what joins groups and sites, in no particular order, at most one for each ordered pair. Empty:
  /// `inter` does. Where there are links, `inter` still holds one level that no pair of groups is slower than.
  std::vector<GroupLink> links;
  std::vector<EgressPrice> egress;  ///< pairs that are not named cost nothing
  std::string currency = "USD";     ///< of all prices
  std::vector<CapacityTrace> capacity;
  std::vector<TokenBucket> token_buckets;
  std::vector<ClusterEvent> events;  ///< ascending times; equal times: all happen, in this order

  [[nodiscard]] std::int64_t devices() const;
  [[nodiscard]] std::int64_t nodes() const;
  [[nodiscard]] std::int64_t first_device(std::size_t group) const;
  [[nodiscard]] std::int64_t first_node(std::size_t group) const;
  [[nodiscard]] std::size_t group_of(std::int64_t device) const;
  [[nodiscard]] std::size_t group_of_node(std::int64_t node) const;
  [[nodiscard]] std::int64_t node_of(std::int64_t device) const;
  [[nodiscard]] std::int64_t first_device_of_node(std::int64_t node) const;
  /// Relative to its kind; 1 for most.
  [[nodiscard]] double speed_of(std::int64_t device) const;
  /// The least speed of devices first … first + count − 1.
  [[nodiscard]] double slowest_of(std::int64_t first, std::int64_t count) const;
  /// Names of all sites, by their first group.
  [[nodiscard]] std::vector<std::string> sites() const;
  [[nodiscard]] std::optional<std::size_t> group_called(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> link_called(std::string_view name) const;  ///< "a-b"
  /// A direct link; else the links of least latency (then the fewest); without links the level that joins the groups.
  /// Within one group its outermost level.
  [[nodiscard]] GroupPath path(std::size_t from_group, std::size_t to_group) const;
  /// Price of a gigabyte from one group to another: of the groups' pair, else of their sites'; 0 where nothing is
  /// stated.
  [[nodiscard]] double egress_price(std::size_t from_group, std::size_t to_group) const;
  /// One node group as a cluster of its own, its devices all as fast as their kind; nothing that changes, no prices of
  /// bytes.
  [[nodiscard]] Cluster alone(std::size_t group) const;
  /// Whether some device is unlike its kind.
  [[nodiscard]] bool has_speeds() const;
  /// Whether links or nodes change while training runs: capacity, token buckets, events, traces of levels.
  [[nodiscard]] bool changes() const;
  [[nodiscard]] bool homogeneous() const { return groups.size() == 1; }
  /// One group of devices that are all as fast as their kind.
  [[nodiscard]] bool equal_devices() const { return homogeneous() && !has_speeds(); }
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
/// The same by what drivers print and people write: "NVIDIA H100 80GB HBM3", "A100-SXM4-80GB" (`also` in
/// data/devices.yaml). Case, spaces, '-', '_' and the maker's name do not count. A name that several devices share
/// ("H100") is none of them: nullptr.
const DeviceKind* device_called(std::string_view name);

/// What "a", "node:3", "rank:17" or "a-b" names.
struct ClusterTarget {
  enum class Kind : std::uint8_t { group, node, device, link };
  Kind kind = Kind::group;
  std::int64_t index = 0;  ///< of the group, node, device, or place in Cluster::links
  bool operator==(const ClusterTarget&) const = default;
};
/// bad_input with the nearest names; `where` is what the message begins with.
Result<ClusterTarget> target_called(const Cluster& cluster, std::string_view name, const std::string& where);

/// Reads a cluster file (YAML or JSON): the short form `{nodes, devices_per_node, device, …}` or the full form with
/// `groups`. Files that it names (matrix, capacity, events) are looked for below `folder`; without one they are
/// refused.
Result<Cluster> load_cluster(std::string_view text, const std::string& where, const std::string& folder = "");
Result<Cluster> load_cluster_file(const std::string& path);

}  // namespace espalier
