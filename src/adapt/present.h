// SPDX-License-Identifier: Apache-2.0
// Represents the cluster at one moment as a separate cluster that does not change. After an event, plans are searched
// and priced on it.
//
// Nodes that are away are left out, and so are groups without nodes. The other nodes are renumbered in their order. A
// slow device has a speed of 1/factor (times its own). A link at a factor has that share of its bandwidth, and at 0
// it is gone. A detour removes the direct link if the path by `via` has links. A node that cannot be reached was
// removed earlier (without_lost_links).
//
// The fabric of a group of equal nodes has one bandwidth for all of them. If some nodes have narrowed paths to the
// network, all levels between nodes of their group take the least factor. Collectives and pipelines wait for their
// slowest member. The result is therefore exact for a plan whose groups all reach such a node, and an upper bound of
// the time for any other plan. To avoid these nodes, leave them out.
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
  /// Holds the canonical JSON of the cluster with only its present nodes, otherwise unchanged, as plans embed it.
  std::string source;
  std::vector<std::int64_t> node_of;  ///< number of each node in the whole cluster
};

/// Returns the cluster of all present nodes. Fails with `infeasible` if none is left, or a group does not reach
/// another.
Result<Present> present_cluster(const Cluster& whole, const std::string& source, const ClusterState& state,
                                const std::vector<std::int64_t>& also_away = {});
/// Returns the cluster of only these nodes, in this order, grouped by node group. It does not check that they are
/// present.
Result<Present> present_on(const Cluster& whole, const std::string& source, const ClusterState& state,
                           const std::vector<std::int64_t>& nodes);

/// Finds how node groups reach each other now. A link at factor 0 is gone, and so is a link with a detour.
class Ways {
 public:
  Ways(const Cluster& whole, const ClusterState& state);
  /// Returns the path, whose `links` are indices into links(); nullptr if there is none.
  const GroupPath* way(std::size_t from, std::size_t to);
  [[nodiscard]] const std::vector<GroupLink>& links() const { return open_.links; }
  /// Returns whether each group reaches the other.
  bool joined(std::size_t a, std::size_t b) { return a == b || (way(a, b) != nullptr && way(b, a) != nullptr); }

 private:
  Cluster open_;
  bool linked_ = false;  // links, not a level, join the groups
  std::map<std::pair<std::size_t, std::size_t>, GroupPath> known_;
};

/// Returns these nodes in parts whose groups reach each other. There is one part unless links are lost.
std::vector<std::vector<std::int64_t>> joined_parts(const Cluster& whole, const ClusterState& state,
                                                    const std::vector<std::int64_t>& nodes);

/// Returns the source without capacities and events over time, on which no plan depends. It is read for every present
/// cluster and should be short.
std::string without_changes(const std::string& source);

/// Returns the numbers of the present cluster's devices in the whole one.
std::vector<std::int64_t> device_numbers(const Present& present, const Cluster& whole);

/// Holds the whole cluster with `nodes` added at the end of a group. `moved[d]` is the new number of device d.
struct Enlarged {
  Cluster cluster;
  std::string source;
  std::vector<std::int64_t> moved;
};
Result<Enlarged> enlarged(const Cluster& cluster, const std::string& source, std::size_t group, std::int64_t nodes);

}  // namespace espalier::adapt
