// SPDX-License-Identifier: Apache-2.0
// Counts the load of transfers between devices on links, and how long these take: the network part of move.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "adapt/present.h"
#include "espalier/adapt.h"
#include "espalier/cluster.h"
#include "espalier/cluster_change.h"

namespace espalier::adapt {

class Loads {
 public:
  /// The cluster must outlive this value.
  Loads(const Cluster& cluster, const ClusterState& state);

  /// Returns 0 for the same node, 1 for the same node group, 2 for another group.
  [[nodiscard]] int distance(std::int64_t from, std::int64_t to) const;
  /// Returns whether any path exists. Links at factor 0 do not count.
  bool reaches(std::int64_t from, std::int64_t to);
  /// Returns whether the path of the device's node to the network is narrower than usual.
  [[nodiscard]] bool narrowed(std::int64_t device) const;
  void send(std::int64_t from, std::int64_t to, std::int64_t bytes);
  /// Returns the seconds in which the path out of `from` and the links between groups would carry these bytes in
  /// addition to their load so far.
  double busy_s(std::int64_t from, std::int64_t to, std::int64_t bytes);

  /// Returns all links that carry bytes, busiest first.
  [[nodiscard]] std::vector<LinkLoad> links() const;
  /// Returns the largest seconds of any link plus the latency of the slowest path used.
  [[nodiscard]] double seconds() const;

 private:
  struct Way {
    std::int64_t bytes = 0;
    double seconds = 0;  // all devices of the node together
  };
  struct Ends {
    Way out, in, inside;
  };
  /// Holds the seconds that some bytes take on a node's path to the network: for the whole node, and for the one
  /// device that sends or receives.
  struct EndSeconds {
    double node = 0, device = 0;
  };
  void over_network(std::int64_t from, std::int64_t to, std::int64_t bytes);
  [[nodiscard]] EndSeconds end_s(std::size_t node, const FabricLevel& way, bool linked, double bytes) const;
  [[nodiscard]] double link_s(const GroupLink& link, std::size_t from_group, std::size_t to_group, double bytes) const;
  [[nodiscard]] FabricLevel way_level(std::int64_t from, std::int64_t to) const;
  /// Returns the links between the groups of these nodes; nullptr inside a group, and if a level joins the groups.
  const GroupPath* links_between(std::size_t from_node, std::size_t to_node);
  [[nodiscard]] FabricLevel level(std::int64_t from, std::int64_t to) const;
  static void raise(double& most, double value) { most = value > most ? value : most; }

  const Cluster* cluster_;
  std::vector<std::int64_t> node_of_;                              // by device
  std::vector<std::size_t> group_of_;                              // by node
  std::vector<double> factor_;                                     // by node: factor on its path to the network
  std::vector<double> out_s_, in_s_, inside_out_s_, inside_in_s_;  // by device
  std::vector<Ends> nodes_;
  std::map<std::string, Way> between_;  // links between groups
  std::map<std::string, double> link_factor_;
  Ways ways_;
  double latency_s_ = 0;
};

}  // namespace espalier::adapt
