// SPDX-License-Identifier: Apache-2.0
// The cluster as it is at a moment, as a cluster of its own that does not change: what is planned on and priced after
// something happened.
//
// Nodes that are away are left out and the others numbered anew, in their order; groups without nodes are left out. A
// slow device has a speed of 1/factor (times its own). A link at a factor has that share of its bandwidth, at 0 it is
// gone; a detour takes the direct link away where the way by `via` has links. A node that nothing reaches is away
// before it comes here (without_lost_links). The fabric of a group of equal nodes is one figure for all of them: where
// the way of some nodes to the network is narrowed, all levels between nodes of their group have the least factor among
// them. Collectives and pipelines wait for their slowest member, so that this is what a plan sees whose groups all
// reach such a node, and for any other plan an upper bound of its time; whoever wants to avoid the nodes leaves them
// out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/cluster_change.h"

namespace espalier::adapt {

struct Present {
  Cluster cluster;
  /// Canonical JSON of the cluster with its nodes of now and nothing else changed, as plans embed it.
  std::string source;
  std::vector<std::int64_t> node_of;  ///< of each node its number in the whole cluster
};

/// All nodes that are there. infeasible where none is left, or not every group reaches every other.
Result<Present> present_cluster(const Cluster& whole, const std::string& source, const ClusterState& state,
                                const std::vector<std::int64_t>& also_away = {});
/// These nodes alone, in this order, those of a group one after the other. Whether they are there is not asked.
Result<Present> present_on(const Cluster& whole, const std::string& source, const ClusterState& state,
                           const std::vector<std::int64_t>& nodes);

/// How node groups reach each other now. A link at factor 0 is gone, and so is a link with a detour.
class Ways {
 public:
  Ways(const Cluster& whole, const ClusterState& state);
  /// nullptr: there is no way. `links` of it are places in links().
  const GroupPath* way(std::size_t from, std::size_t to);
  [[nodiscard]] const std::vector<GroupLink>& links() const { return open_.links; }
  /// Both ways.
  bool joined(std::size_t a, std::size_t b) { return a == b || (way(a, b) != nullptr && way(b, a) != nullptr); }

 private:
  Cluster open_;
  bool linked_ = false;  // links, not a level, join the groups
  std::map<std::pair<std::size_t, std::size_t>, GroupPath> known_;
};

/// These nodes in parts whose groups reach each other: one part unless links are lost.
std::vector<std::vector<std::int64_t>> joined_parts(const Cluster& whole, const ClusterState& state,
                                                    const std::vector<std::int64_t>& nodes);

/// The source without capacities and events over time, which no plan depends on: read for every present cluster, so
/// that it should be short.
std::string without_changes(const std::string& source);

/// Devices of the present cluster as they are numbered in the whole one.
std::vector<std::int64_t> device_numbers(const Present& present, const Cluster& whole);

/// The whole cluster with `nodes` more nodes at the end of a group. `moved[d]`: the number that device d has now.
struct Enlarged {
  Cluster cluster;
  std::string source;
  std::vector<std::int64_t> moved;
};
Result<Enlarged> enlarged(const Cluster& cluster, const std::string& source, std::size_t group, std::int64_t nodes);

}  // namespace espalier::adapt
