// SPDX-License-Identifier: Apache-2.0
// The network as devices and directed links: what a transfer from one device to another occupies.
//
// A link has a capacity in bytes/s, a latency, and possibly a trace that says how both change over time. `route(a, b)` appends the links
// from a to b in order. Links have ids 0 … L−1 and come in ranges of equal ones, so that a cluster of any size is a short list.
//
// A device belongs to a run of equal nodes with nested levels (topology_builders.h says which links those make), where a route is
// arithmetic on the two ids. Runs belong to sites; between sites a route follows a table made once. A link list or a matrix between
// devices is the case in which each device is a site of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cluster {

using LinkId = std::int32_t;

/// Equal links with consecutive ids.
struct LinkRange {
  enum class Names : std::uint8_t { single, devices, pairs };
  Names names = Names::single;
  std::string name;  ///< of a single link; else what the name of each link ends in ("rails out")
  LinkId first = 0;  ///< id of the first link
  std::int64_t count = 1;
  double capacity = 0.0;  ///< bytes/s of each link
  double latency_s = 0.0;
  std::vector<LinkChange> trace;  ///< factors over time; empty: constant
  std::int64_t first_device = 0;  ///< devices: link i serves devices first_device + i·devices … + devices − 1
  std::int64_t devices = 1;       ///< devices: of each link; pairs: of one domain
  std::int64_t last_device = 0;   ///< of the run that the links serve
};

class Topology {
 public:
  [[nodiscard]] std::int64_t devices() const { return devices_; }
  [[nodiscard]] std::int64_t links() const { return links_; }
  [[nodiscard]] const std::vector<LinkRange>& ranges() const { return ranges_; }
  [[nodiscard]] const LinkRange& range_of(LinkId link) const;
  /// "rank:17 rails out", "rank:16-17 rails out" (a NIC that two devices share), "rank:3-rank:5", or a listed link's "a-b".
  [[nodiscard]] std::string link_name(LinkId link) const;

  /// The first device of the domain in which `device` talks without the network between nodes: of its node, or of its NVLink domain. A
  /// listed device is alone in it.
  [[nodiscard]] std::int64_t network_domain(std::int64_t device) const;
  /// Appends the links from device `a` to device `b`, in order; nothing for a = b.
  void route(std::int64_t a, std::int64_t b, std::vector<LinkId>& links) const;
  [[nodiscard]] std::vector<LinkId> route(std::int64_t a, std::int64_t b) const;

 private:
  friend class TopologyAssembly;

  static constexpr std::int32_t kNone = -1;
  /// Levels that use the same ports of a device, innermost first (NVLink, PCIe, network).
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
    bool through_network = false;  ///< what leaves for another run goes through the ports and trunks of the outermost medium
    std::int64_t site = 0;         ///< of the first device
    std::int64_t site_step = 0;    ///< 1 where each device is a site
  };

  [[nodiscard]] const Run& run_of(std::int64_t device) const;
  [[nodiscard]] LinkId link_at(std::int32_t range, std::int64_t index) const;
  void leave(const Run& run, std::int64_t device, std::size_t level, std::vector<LinkId>& links) const;
  void enter(const Run& run, std::int64_t device, std::size_t level, std::vector<LinkId>& links) const;
  void between_sites(std::int64_t from, std::int64_t to, std::vector<LinkId>& links) const;

  std::int64_t devices_ = 0, links_ = 0;
  std::vector<LinkRange> ranges_;
  std::vector<Run> runs_;
  std::int64_t sites_ = 0;
  std::vector<LinkId> next_link_;        ///< sites² entries: the first link from one site to another; −1: none
  std::vector<std::int64_t> link_goes_;  ///< site links are 0 … : where each one ends
};

/// Bytes/s of the narrowest link on the way from `a` to `b`, at nominal capacity; 0 where nothing is between them.
double route_bandwidth(const Topology& topology, std::int64_t a, std::int64_t b);
/// Sum of the latencies on the way, seconds.
double route_latency(const Topology& topology, std::int64_t a, std::int64_t b);

}  // namespace espalier::cluster
