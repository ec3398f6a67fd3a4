// SPDX-License-Identifier: Apache-2.0
#include "check/move_check.h"

#include <algorithm>
#include <cmath>

#include "check/verdict.h"

namespace espalier::check {
namespace {

/// Holds the rates of one node's paths in bytes per second: the best and the worst that its levels and interfaces
/// offer.
struct Rates {
  double node_best = 0, node_worst = 0;      // the whole node
  double device_best = 0, device_worst = 0;  // one of its devices alone
  double inside_best = 0, inside_worst = 0;  // one device to others of the node
};

class NetworkRates {
 public:
  NetworkRates(const Cluster& cluster, const MovePrices& prices) : cluster_(&cluster), prices_(&prices) {}

  [[nodiscard]] Rates of(std::int64_t node) const {
    const NodeGroup& group = cluster_->groups[cluster_->group_of_node(node)];
    const auto devices = static_cast<double>(group.devices_per_node);
    const double factor = factor_of_node(node, devices);
    Rates out;
    for (const FabricLevel& level : levels_of(group)) {
      const double shared = level.bandwidth.count() * level.efficiency * factor;
      const double alone = std::max(level.bandwidth.count(), level.bandwidth_alone.count()) * level.efficiency * factor;
      widen(out.node_best, out.node_worst, shared * devices);
      widen(out.device_best, out.device_worst, alone);
    }
    if (group.node_bandwidth.count() > 0 && !cluster_->links.empty())
      widen(out.node_best, out.node_worst, group.node_bandwidth.count() * factor);
    for (const FabricLevel& level : group.intra)
      widen(out.inside_best, out.inside_worst, level.bandwidth.count() * level.efficiency);
    return out;
  }

  /// Returns the bytes per second that a link between groups carries; 0 if there is no such link.
  [[nodiscard]] double of_link(const std::string& name) const {
    const auto at = cluster_->link_called(name);
    if (!at) return 0;
    const GroupLink& link = cluster_->links[*at];
    double rate = link.bandwidth.count();
    for (const auto& [target, factor] : prices_->narrowed)
      if (target == name) rate *= factor;
    return link.sharing == LinkSharing::line ? rate : rate * static_cast<double>(most_nodes());
  }

  /// Returns the latency of the slowest path.
  [[nodiscard]] double latency_s() const {
    double most = 0;
    const auto raise = [&](const std::vector<FabricLevel>& levels) {
      for (const FabricLevel& level : levels) most = std::max(most, level.latency.count());
    };
    raise(cluster_->inter);
    for (const NodeGroup& group : cluster_->groups) {
      raise(group.intra);
      raise(group.inter);
    }
    double links = 0;
    for (const GroupLink& link : cluster_->links) links += link.latency.count();
    return most + links;
  }

  /// Returns the smallest rate of a link between groups, whoever shares it.
  [[nodiscard]] double worst_of_link(const std::string& name) const {
    const double best = of_link(name);
    const auto at = cluster_->link_called(name);
    return !at || cluster_->links[*at].sharing == LinkSharing::line ? best : best / static_cast<double>(most_nodes());
  }

 private:
  static void widen(double& best, double& worst, double rate) {
    if (rate <= 0) return;
    best = std::max(best, rate);
    worst = worst == 0 ? rate : std::min(worst, rate);
  }
  [[nodiscard]] std::int64_t most_nodes() const {
    std::int64_t most = 1;
    for (const NodeGroup& group : cluster_->groups) most = std::max(most, group.nodes);
    return most;
  }
  /// Returns all levels over which a node communicates with others.
  [[nodiscard]] std::vector<FabricLevel> levels_of(const NodeGroup& group) const {
    std::vector<FabricLevel> out = cluster_->inter;
    out.insert(out.end(), group.inter.begin(), group.inter.end());
    return out;
  }
  /// Returns the factor on a node's bandwidth to the network. A narrowed device reduces it by its part of the node's.
  [[nodiscard]] double factor_of_node(std::int64_t node, double devices) const {
    double factor = 1, of_devices = 1;
    for (const auto& [name, value] : prices_->narrowed) {
      const auto target = target_called(*cluster_, name, "");
      if (!target) continue;
      if (target->kind == ClusterTarget::Kind::node && target->index == node) factor *= value;
      if (target->kind == ClusterTarget::Kind::device && cluster_->node_of(target->index) == node)
        of_devices -= (1 - value) / devices;
    }
    return factor * of_devices;
  }

  const Cluster* cluster_;
  const MovePrices* prices_;
};

/// Returns the question, extended by what its prices state about the network.
MoveQuestion on_network(MoveQuestion question, const MovePrices& prices) {
  for (const auto& [name, factor] : prices.narrowed) {
    const auto target = target_called(*question.cluster, name, "");
    if (!target || factor >= 1) continue;
    if (target->kind == ClusterTarget::Kind::node) question.narrowed_nodes.push_back(target->index);
    if (target->kind == ClusterTarget::Kind::device) question.narrowed_nodes.push_back(question.cluster->node_of(target->index));
    if (target->kind == ClusterTarget::Kind::link && factor <= 0) question.lost_links.push_back(name);
  }
  return question;
}

class Check {
 public:
  Check(const MoveQuestion& question, const MovePrices& prices, const MoveClaims& claims)
      : cluster_(*question.cluster),
        prices_(prices),
        claims_(claims),
        found_(moved_bytes(on_network(question, prices))),
        storage_(found_.lost > 0 || (claims.storage > 0 && found_.peer > 0)) {}

  std::vector<Finding> findings() {
    check_bytes();
    storage_ ? check_storage_links() : check_links();
    check_seconds();
    check_choice();
    return {bytes_.finding(say(storage_ ? found_.needed : found_.peer, " bytes move, as the two plans require")),
            links_.finding(say(claims_.links.size(), " links carry the required bytes")),
            seconds_.finding("the time of the bytes on their links")};
  }

 private:
  void equal(Verdict& verdict, const char* what, std::int64_t said, std::int64_t derived) {
    verdict.require(said == derived, [&] { return say(what, ": claimed ", said, ", derived ", derived); });
  }

  void check_bytes() {
    bytes_.require(found_.nowhere == 0,
                   [&] { return say(found_.nowhere, " bytes of the model are missing from a pipeline of the new plan"); });
    equal(bytes_, "lost bytes", claims_.lost, found_.lost);
    equal(bytes_, "kept bytes", claims_.kept, storage_ ? 0 : found_.kept);
    equal(bytes_, "bytes from peers", claims_.peer, storage_ ? 0 : found_.peer);
    equal(bytes_, "bytes from storage", claims_.storage, storage_ ? found_.needed : 0);
  }

  void check_storage_links() {
    const bool one = claims_.links.size() == 1 && claims_.links.front().first == "storage";
    links_.require(one && claims_.links.front().second == found_.needed,
                   [&] { return say("everything that is read comes from storage, ", found_.needed, " bytes"); });
  }

  void check_links() {
    std::int64_t sent = 0, taken = 0;
    std::map<std::string, MovedRange> open = found_.links;
    for (const auto& claim : claims_.links) {  // clang 14 captures no structured bindings
      const std::string& name = claim.first;
      const std::int64_t bytes = claim.second;
      if (name.ends_with(" out") && name.starts_with("node:")) sent += bytes;
      if (name.ends_with(" in") && name.starts_with("node:")) taken += bytes;
      const auto at = open.find(name);
      if (!links_.require(at != open.end(), [&] { return say(name, ": claimed ", bytes, " bytes, none are required"); }))
        continue;
      const MovedRange b = at->second;
      links_.require(b.least <= bytes && bytes <= b.most, [&] {
        return b.least == b.most ? say(name, ": claimed ", bytes, " bytes, derived ", b.least)
                                 : say(name, ": claimed ", bytes, " bytes, derived from ", b.least, " to ", b.most);
      });
      open.erase(at);
    }
    for (const auto& [name, b] : open)
      links_.require(b.least == 0, [&, &name = name, &b = b] {
        return say(name, ": nothing claimed, required are at least ", b.least, " bytes");
      });
    links_.require(sent == taken, [&] { return say("nodes send ", sent, " bytes and receive ", taken); });
  }

  /// Returns the least and the most seconds of a transfer that puts these bytes on links.
  std::pair<double, double> transfer_s(const std::vector<std::pair<std::string, std::int64_t>>& links) const {
    const NetworkRates network(cluster_, prices_);
    double least = 0, most = 0;
    const auto raise = [](double& value, double bytes, double rate) {
      if (rate > 0) value = std::max(value, bytes / rate);
    };
    for (const auto& [name, count] : links) {
      const auto bytes = static_cast<double>(count);
      if (const double rate = network.of_link(name); rate > 0) {
        raise(least, bytes, rate);
        raise(most, bytes, network.worst_of_link(name));
        continue;
      }
      const bool inside = name.starts_with("inside ");
      const auto target = target_called(cluster_, inside ? name.substr(7) : name.substr(0, name.find(' ')), "");
      if (!target || target->kind != ClusterTarget::Kind::node) continue;
      const Rates rates = network.of(target->index);
      if (!inside) raise(least, bytes, rates.node_best);
      if (!inside) raise(most, bytes, rates.node_worst);
      raise(most, bytes, inside ? rates.inside_worst : rates.device_worst);
    }
    for (const auto& [device, bytes] : found_.taken)
      raise(least, static_cast<double>(bytes), network.of(cluster_.node_of(device)).device_best);
    for (const auto& [device, bytes] : found_.taken_inside)
      raise(least, static_cast<double>(bytes), network.of(cluster_.node_of(device)).inside_best);
    return {least, most > 0 ? most + network.latency_s() : 0};
  }

  /// Checks that a checkpoint is read if peers take longer, and only then, as far as the bounds of their time can
  /// decide.
  void check_choice() {
    if (found_.lost > 0 || found_.peer == 0) return;
    const double storage = static_cast<double>(found_.most_read) / prices_.storage_per_device +
                           static_cast<double>(prices_.checkpoint_age_ns) * 1e-9;
    if (!storage_) {
      const double least = transfer_s(claims_.links).first;
      seconds_.require(least <= storage * (1 + 1e-9),
                       [&] { return say("peers take ", least, " s or more, the last checkpoint ", storage, " s"); });
      return;
    }
    std::vector<std::pair<std::string, std::int64_t>> all;
    for (const auto& [name, bounds] : found_.links) all.emplace_back(name, bounds.most);
    const double most = transfer_s(all).second;
    seconds_.require(storage <= most * (1 + 1e-9),
                     [&] { return say("the last checkpoint takes ", storage, " s, peers at most ", most, " s"); });
  }

  void check_seconds() {
    const auto rounded = [](double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e9)); };
    const auto [least, most] = storage_ ? std::pair(0.0, 0.0) : transfer_s(claims_.links);
    seconds_.require(claims_.transfer_ns >= rounded(least * (1 - 1e-9)) && claims_.transfer_ns <= rounded(most * (1 + 1e-9)) + 1,
                     [&, least = least, most = most] {
                       return say("transfer: claimed ", claims_.transfer_ns, " ns, its bytes take ", rounded(least), " to ",
                                  rounded(most), " ns");
                     });
    const double read = storage_ ? static_cast<double>(found_.most_read) / prices_.storage_per_device : 0;
    equal(seconds_, "storage, ns", claims_.storage_ns, rounded(read));
    equal(seconds_, "rollback, ns", claims_.rollback_ns, storage_ ? prices_.checkpoint_age_ns : 0);
    equal(seconds_, "restart, ns", claims_.restart_ns, prices_.restart_ns);
    equal(seconds_, "warm-up, ns", claims_.warm_up_ns, prices_.warm_up_ns);
  }

  const Cluster& cluster_;
  const MovePrices& prices_;
  const MoveClaims& claims_;
  MovedBytes found_;
  bool storage_;  // all states are read from the last checkpoint
  Verdict bytes_{"moved-bytes"}, links_{"bytes-per-link"}, seconds_{"move-seconds"};
};

}  // namespace

std::vector<Finding> check_move(const MoveQuestion& question, const MovePrices& prices, const MoveClaims& claims) {
  return Check(question, prices, claims).findings();
}

}  // namespace espalier::check
