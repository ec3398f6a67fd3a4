// SPDX-License-Identifier: Apache-2.0
// What transfers between devices put on links, and how long these take: the network part of move.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/adapt.h"
#include "espalier/cluster.h"
#include "espalier/cluster_change.h"

namespace espalier::adapt {

class Loads {
 public:
  /// Both outlive this value.
  Loads(const Cluster& cluster, const ClusterState& state);

  /// 0: the same node, 1: the same node group, 2: another group.
  [[nodiscard]] int distance(std::int64_t from, std::int64_t to) const;
  void send(std::int64_t from, std::int64_t to, std::int64_t bytes);
  /// Seconds that the way out of a device is busy so far, over the network or inside its node.
  [[nodiscard]] double sent_s(std::int64_t device, bool inside) const;

  /// All links with bytes, busiest first.
  [[nodiscard]] std::vector<LinkLoad> links() const;
  /// The most seconds of any link, and the latency of the slowest way that was used.
  [[nodiscard]] double seconds() const;

 private:
  struct Way {
    std::int64_t bytes = 0;
    double seconds = 0;  // of all devices of the node together
  };
  struct Ends {
    Way out, in, inside;
  };
  void over_network(std::int64_t from, std::int64_t to, std::int64_t bytes);
  [[nodiscard]] FabricLevel level(std::int64_t from, std::int64_t to) const;
  static void raise(double& most, double value) { most = value > most ? value : most; }

  const Cluster* cluster_;
  std::vector<std::int64_t> node_of_;                              // of each device
  std::vector<std::size_t> group_of_;                              // of each node
  std::vector<double> factor_;                                     // of each node's way to the network
  std::vector<double> out_s_, in_s_, inside_out_s_, inside_in_s_;  // of each device alone
  std::vector<Ends> nodes_;
  std::map<std::string, Way> between_;  // links between groups
  std::map<std::string, double> link_factor_;
  double latency_s_ = 0;
};

}  // namespace espalier::adapt
