// SPDX-License-Identifier: Apache-2.0
// Tracks which nodes are present while events happen in sequence.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "espalier/cluster.h"

namespace espalier::cluster {

class Presence {
 public:
  /// Starts with all nodes present. Keeps a reference to the cluster.
  explicit Presence(const Cluster& cluster) : cluster_(&cluster) {}

  /// Applies a join or leave; other events change nothing. The error states what is wrong at this point: "node:3 is
  /// away already".
  Status apply(const ClusterEvent& event);
  [[nodiscard]] bool here(std::int64_t node) const;
  /// Returns the nodes that are away, in ascending order.
  [[nodiscard]] std::vector<std::int64_t> away() const;

 private:
  struct Nodes {
    std::set<std::int64_t> here, away;
  };
  Nodes& nodes_of(std::size_t group);
  Status move_one(std::int64_t node, bool join);
  Status move_several(std::size_t group, double count, bool join);

  const Cluster* cluster_;
  std::map<std::size_t, Nodes> groups_;  ///< only groups with nodes that came or left
};

}  // namespace espalier::cluster
