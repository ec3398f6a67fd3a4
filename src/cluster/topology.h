// SPDX-License-Identifier: Apache-2.0
// Represents the network as devices and directed links, which transfers between devices occupy.
//
// A link has a capacity in bytes/s, a latency, and possibly a trace of how both change over time. `route(a, b)`
// appends the links from a to b in order. Links have ids 0 … L−1 and come in ranges of equal ones, so that a cluster
// of any size is a short list.
//
// A device belongs to a run of equal nodes with nested levels, where a route is arithmetic on the two ids
// (topology_builders.h defines the links). Runs belong to sites; between sites a route follows a table made once. In
// a link list or a matrix between devices, each device is a site of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cluster {

using LinkId = std::int32_t;

/// Holds equal links with consecutive ids.
struct LinkRange {
  enum class Names : std::uint8_t { single, devices, pairs, nodes_from, nodes_to, node_pairs };
  Names names = Names::single;
  /// Holds the name of a single link or of a link between sites; otherwise the common suffix of link names ("rails
  /// out").
  std::string name;
  LinkId first = 0;  ///< id of the first link
  std::int64_t count = 1;
  double capacity = 0.0;  ///< bytes/s of each link
  double latency_s = 0.0;
  std::vector<LinkChange> trace;  ///< factors over time; empty: constant
  std::int64_t first_device = 0;  ///< devices: link i serves devices first_device + i·devices … + devices − 1
  std::int64_t devices = 1;       ///< devices: of each link; pairs: of one domain
  std::int64_t last_device = 0;   ///< last device of the run that the links serve
  std::int64_t columns = 1;       ///< node_pairs: nodes at the far end; link i·columns + j joins node i to node j
};

/// Describes a link whose capacity over time differs from that of its range.
struct LinkTrace {
  LinkId link = 0;
  std::vector<LinkChange> changes;  ///< the whole trace of the link, that of its range included
};

/// Describes a link that has `full` while it has tokens, and `sustained` when it has none (TokenBucket). Both are at
/// most its capacity.
struct LinkBucket {
  LinkId link = 0;
  double full = 0.0, sustained = 0.0;  ///< bytes/s
  double bucket = 0.0;                 ///< bytes
};

class Topology {
 public:
  [[nodiscard]] std::int64_t devices() const { return devices_; }
  [[nodiscard]] std::int64_t links() const { return links_; }
  [[nodiscard]] const std::vector<LinkRange>& ranges() const { return ranges_; }
  [[nodiscard]] const LinkRange& range_of(LinkId link) const;
  [[nodiscard]] const std::vector<LinkTrace>& traces() const { return traces_; }  ///< by link
  [[nodiscard]] const std::vector<LinkBucket>& buckets() const { return buckets_; }
  /// Returns a link's name: "rank:17 rails out", "rank:16-17 rails out" (a NIC that two devices share),
  /// "rank:3-rank:5", or a listed link's "a-b". For a link that nodes do not share, it is "a-b from node 3", "a-b to
  /// node 5" or "a-b node 3 to 5", counted at that end.
  [[nodiscard]] std::string link_name(LinkId link) const;

  /// Returns the first device of the domain in which `device` communicates without the network between nodes: of its
  /// node, or of its NVLink domain. A listed device is alone in it.
  [[nodiscard]] std::int64_t network_domain(std::int64_t device) const;
  /// Appends the links from device `a` to device `b`, in order; nothing for a = b.
  void route(std::int64_t a, std::int64_t b, std::vector<LinkId>& links) const;
  [[nodiscard]] std::vector<LinkId> route(std::int64_t a, std::int64_t b) const;

  /// Returns the links of a path between sites; `way` is an index into SiteGraph::links.
  [[nodiscard]] std::vector<LinkId> links_of_way(std::size_t way) const;
  /// Returns the ports by which a device reaches the network between nodes, out and in; none if there is no such
  /// network.
  [[nodiscard]] std::vector<LinkId> network_ports(std::int64_t device) const;

 private:
  friend class TopologyAssembly;

  static constexpr std::int32_t kNone = -1;
  /// Holds levels that use the same ports of a device, innermost first (NVLink, PCIe, network).
  struct Medium {
    std::int32_t out = kNone;  ///< range of the ports; the next one holds the opposite direction
    std::int64_t share = 1;    ///< consecutive devices behind one port
    std::int32_t lowest = 0;   ///< level
  };
  struct Level {
    std::int64_t span = 1;   ///< devices of a domain
    std::int64_t below = 1;  ///< devices of a domain of the level below
    std::int32_t medium = 0;
    std::int32_t trunk = kNone;  ///< range: out of each domain below; the next one holds the opposite direction
    std::int32_t pairs = kNone;  ///< range: one link for each ordered pair of devices of a domain
  };
  struct Run {
    std::int64_t first = 0, count = 0;  ///< devices
    std::vector<Level> levels;
    std::vector<Medium> media;
    /// Traffic to other runs goes through the ports and trunks of the outermost medium.
    bool through_network = false;
    std::int64_t site = 0;       ///< site of the first device
    std::int64_t site_step = 0;  ///< 1 if each device is a site
    std::int64_t devices_per_node = 1;
    std::int64_t first_at_router = 0;  ///< index of its first node at the router of its site
  };
  /// Describes a link between sites, as one line, one a node, or one a pair of nodes.
  struct Way {
    LinkId first = 0;  ///< its links are consecutive
    LinkSharing sharing = LinkSharing::line;
    std::int64_t from = 0, to = 0;              ///< sites
    std::int64_t from_nodes = 1, to_nodes = 1;  ///< at either end
  };

  [[nodiscard]] const Run& run_of(std::int64_t device) const;
  [[nodiscard]] LinkId link_at(std::int32_t range, std::int64_t index) const;
  void leave(const Run& run, std::int64_t device, std::size_t level, std::vector<LinkId>& links) const;
  void enter(const Run& run, std::int64_t device, std::size_t level, std::vector<LinkId>& links) const;
  void between_sites(const Run& from, std::int64_t a, const Run& to, std::int64_t b, std::vector<LinkId>& links) const;
  [[nodiscard]] std::int64_t node_at(const Run& run, std::int64_t device, std::int64_t site, std::int64_t nodes) const;

  std::int64_t devices_ = 0, links_ = 0;
  std::vector<LinkRange> ranges_;
  std::vector<Run> runs_;
  std::int64_t sites_ = 0;
  std::vector<LinkId> next_link_;  ///< sites² entries: first way from one site to another; −1: none
  std::vector<Way> ways_;
  std::vector<LinkTrace> traces_;
  std::vector<LinkBucket> buckets_;
};

/// Returns the bytes/s of the narrowest link on the path from `a` to `b`, at nominal capacity; 0 if nothing is
/// between them.
double route_bandwidth(const Topology& topology, std::int64_t a, std::int64_t b);
/// Returns the sum of the latencies on the path in seconds.
double route_latency(const Topology& topology, std::int64_t a, std::int64_t b);

}  // namespace espalier::cluster
