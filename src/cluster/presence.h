// SPDX-License-Identifier: Apache-2.0
// Which nodes are there while events happen one after the other.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cluster {

class Presence {
 public:
  /// All nodes are there. Keeps a reference to the cluster.
  explicit Presence(const Cluster& cluster) : cluster_(&cluster) {}

  /// A join or leave; other events change nothing. The error says what is wrong with it now: "node:3 is away already".
  Status apply(const ClusterEvent& event);
  [[nodiscard]] bool here(std::int64_t node) const;
  /// Nodes that are away, ascending.
  [[nodiscard]] std::vector<std::int64_t> away() const;

 private:
  struct Nodes {
    std::set<std::int64_t> here, away;
  };
  Nodes& nodes_of(std::size_t group);
  Status move_one(std::int64_t node, bool join);
  Status move_several(std::size_t group, double count, bool join);

  const Cluster* cluster_;
  std::map<std::size_t, Nodes> groups_;  ///< of which some node has come or gone
};

}  // namespace espalier::cluster
