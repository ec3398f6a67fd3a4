// SPDX-License-Identifier: Apache-2.0
// Builds topologies from a user's description of a cluster: nested levels, a list of links, a matrix.
//
// Nested levels. The closed form (cost/collective.h) gives each device β_k·η_k at level k when all devices send, and
// one device alone up to alone_k·η_k. These links have the same rates:
//   medium   consecutive levels over which a device has one port: NVLink (nvswitch, nvlink_mesh, nvl72), PCIe, network
//            (rail_optimized, fat_tree, ethernet). Any other kind is a separate medium. Its lowest level is a, its
//            levels are i ≥ a.
//   ports    in and out of each device, max_i β_i·η_i. If alone_a = s·β_a with an integer s that divides the devices
//            w_a of a domain below level a, then s consecutive devices share a port (a NIC, a PCIe uplink) of
//            s·max_i β_i·η_i.
//   trunks   in and out of each domain below level k, w_k·max_{i≥k} β_i·η_i, shared by its w_k devices. They exist for
//            levels k > a where that is less than its ports together (oversubscription), and for level a where
//            alone_a > β_a without such an s. A level with a trace or a latency of its own also has trunks.
//   pairs    one link for each ordered pair of devices if `per_peer` is stated and a domain has at most kMaxMesh
//            devices: per_peer·η.
// A message over level k leaves through its port and the trunks of levels a … k, and enters through the same at the
// other end. Each of those links carries at least β_k·η_k, so that a lone message, or a collective alone, gets the
// rate of the closed form. Latencies: α_a/2 at either port; the additional latency of a higher level, halved, at its
// trunks. Traces become traces of the links of their level.
//
// Links between sites. A site is a device, a group of nodes or a router. Routes have the least latency, then the fewest
// links, then the smallest ids. With `direct_first` (a matrix, where a figure already covers the whole path) a direct
// link is always used.
#pragma once

#include <string>
#include <vector>

#include "cluster/topology.h"
#include "espalier/cluster.h"
#include "espalier/result.h"

namespace espalier::cluster {

inline constexpr std::int64_t kMaxMesh = 64;
inline constexpr std::size_t kMaxSites = 4096;  ///< the table of routes has its square

/// Describes one direction of a link.
struct SiteLink {
  std::int64_t from = 0, to = 0;
  BytesPerSecond bandwidth;
  Seconds latency;
  std::vector<LinkChange> trace;
  LinkSharing sharing = LinkSharing::line;  ///< others need SiteGraph::nodes
};

struct SiteGraph {
  std::vector<std::string> names;  ///< one a site
  std::vector<SiteLink> links;
  bool direct_first = false;
  std::vector<std::int64_t> nodes;  ///< at each site; empty: every link is one line
};

/// Holds figures from each site (row) to each other; 0: no direct link. The diagonal does not count.
struct SiteMatrix {
  std::vector<std::string> names;
  std::vector<BytesPerSecond> bandwidth;
  std::vector<Seconds> latency;
};

/// Requires a matrix of names.size()² entries.
SiteGraph graph_of(const SiteMatrix& matrix);

/// Returns the graph of a cluster. Sites 0 … groups − 1 are the groups. The sites that links name follow, each a
/// router that its groups reach with all their interfaces. Links 0 … are Cluster::links, in that order.
SiteGraph graph_of(const Cluster& cluster);

/// Returns next[s], the first link of the best path from site s to `target`; −1 if there is none, or s is the target.
std::vector<LinkId> next_links(const SiteGraph& graph, std::int64_t target);
/// Checks that sites 0 … ends − 1 all reach each other; the error names two that do not.
Status reach_each_other(const SiteGraph& graph, std::int64_t ends);

/// Builds the levels of the cluster; several groups are joined by the single level of Cluster::inter.
Topology nested_topology(const Cluster& cluster);

/// Builds a listed topology. Sites 0 … `devices` − 1 are devices, those after them are routers.
Result<Topology> listed_topology(const SiteGraph& graph, std::int64_t devices);

/// Builds a joined topology. Sites 0 … groups − 1 are the cluster's groups, with their own levels inside; the graph
/// replaces Cluster::inter. Traffic leaves a group through its network, or through the interfaces of its one node, if
/// these are known.
Result<Topology> joined_topology(const Cluster& cluster, const SiteGraph& graph);

/// Builds the cluster of a file. It is joined by its links if it has any, else by its levels, and has its capacities
/// over time and token buckets.
///   capacity   of a link between groups: all links that represent it; of "node:3" or "rank:17": the ports of those
///              devices to the network, both directions. Several traces of one link multiply.
///   bucket     of a link that is one line: that line. If a target means several links (the NICs of a node), rates and
///              tokens are divided evenly among those of one direction. Each node or pair of nodes of a link that is
///              not one line has a bucket of its own.
Result<Topology> topology_of(const Cluster& cluster);

}  // namespace espalier::cluster
