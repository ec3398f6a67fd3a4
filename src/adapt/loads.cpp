// SPDX-License-Identifier: Apache-2.0
#include "adapt/loads.h"

#include <algorithm>

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::adapt {
namespace {

double rate_of(const FabricLevel& level, bool alone) {
  const double bandwidth = alone ? std::max(level.bandwidth.count(), level.bandwidth_alone.count()) : level.bandwidth.count();
  return bandwidth * level.efficiency;
}

}  // namespace

Loads::Loads(const Cluster& cluster, const ClusterState& state) : cluster_(&cluster), ways_(cluster, state) {
  for (std::size_t g = 0; g < cluster.groups.size(); ++g)
    for (std::int64_t n = 0; n < cluster.groups[g].nodes; ++n) {
      const auto node = static_cast<std::int64_t>(group_of_.size());
      node_of_.insert(node_of_.end(), static_cast<std::size_t>(cluster.groups[g].devices_per_node), node);
      group_of_.push_back(g);
    }
  factor_.assign(group_of_.size(), 1.0);
  std::vector<double> of_devices = factor_;  // mean over a node's devices
  nodes_.resize(group_of_.size());
  for (auto* seconds : {&out_s_, &in_s_, &inside_out_s_, &inside_in_s_}) seconds->assign(node_of_.size(), 0.0);
  for (const CapacityFactor& c : state.capacity) {
    const auto target = target_called(cluster, c.target, "cluster");
    ESPALIER_CHECK(target.ok());
    if (target->kind == ClusterTarget::Kind::node) factor_[static_cast<std::size_t>(target->index)] *= c.factor;
    if (target->kind == ClusterTarget::Kind::link) link_factor_[c.target] = c.factor;
    if (target->kind != ClusterTarget::Kind::device) continue;
    const auto node = static_cast<std::size_t>(node_of_[static_cast<std::size_t>(target->index)]);
    of_devices[node] -= (1.0 - c.factor) / static_cast<double>(cluster.groups[group_of_[node]].devices_per_node);
  }
  for (std::size_t node = 0; node < factor_.size(); ++node) factor_[node] *= of_devices[node];
}

bool Loads::narrowed(std::int64_t device) const {
  return factor_[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(device)])] < 1.0;
}

bool Loads::reaches(std::int64_t from, std::int64_t to) {
  const auto group = [&](std::int64_t d) { return group_of_[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(d)])]; };
  return group(from) == group(to) || ways_.way(group(from), group(to)) != nullptr;
}

int Loads::distance(std::int64_t from, std::int64_t to) const {
  const std::int64_t a = node_of_[static_cast<std::size_t>(from)], b = node_of_[static_cast<std::size_t>(to)];
  if (a == b) return 0;
  return group_of_[static_cast<std::size_t>(a)] == group_of_[static_cast<std::size_t>(b)] ? 1 : 2;
}

FabricLevel Loads::level(std::int64_t from, std::int64_t to) const {
  const std::size_t g = group_of_[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(from)])];
  const NodeGroup& group = cluster_->groups[g];
  const std::int64_t first = cluster_->first_device(g);
  const std::vector<FabricLevel>& between = cluster_->homogeneous() ? cluster_->inter : group.inter;
  for (const auto* levels : {&group.intra, &between})
    for (const FabricLevel& level : *levels)
      if ((from - first) / level.span == (to - first) / level.span) return level;
  return between.empty() ? cluster_->inter.back() : between.back();
}

void Loads::send(std::int64_t from, std::int64_t to, std::int64_t bytes) {
  if (distance(from, to) > 0) {
    over_network(from, to, bytes);
    return;
  }
  const FabricLevel inside = level(from, to);
  const double seconds = static_cast<double>(bytes) / rate_of(inside, false);
  inside_out_s_[static_cast<std::size_t>(from)] += seconds;
  inside_in_s_[static_cast<std::size_t>(to)] += seconds;
  Ends& node = nodes_[static_cast<std::size_t>(node_of_[static_cast<std::size_t>(from)])];
  node.inside.bytes += bytes;
  raise(node.inside.seconds, inside_out_s_[static_cast<std::size_t>(from)]);
  raise(node.inside.seconds, inside_in_s_[static_cast<std::size_t>(to)]);
  raise(latency_s_, inside.latency.count());
}

FabricLevel Loads::way_level(std::int64_t from, std::int64_t to) const {
  return distance(from, to) == 2 && !cluster_->inter.empty() ? cluster_->inter.back() : level(from, to);
}

const GroupPath* Loads::links_between(std::size_t from_node, std::size_t to_node) {
  if (group_of_[from_node] == group_of_[to_node] || cluster_->links.empty()) return nullptr;
  const GroupPath* path = ways_.way(group_of_[from_node], group_of_[to_node]);
  ESPALIER_CHECK(path != nullptr);  // callers ask only for reachable devices
  return path;
}

Loads::EndSeconds Loads::end_s(std::size_t node, const FabricLevel& way, bool linked, double bytes) const {
  const NodeGroup& group = cluster_->groups[group_of_[node]];
  const bool own = linked && group.node_bandwidth.count() > 0;
  const double all = own ? group.node_bandwidth.count() : rate_of(way, false) * static_cast<double>(group.devices_per_node);
  return {bytes / (all * factor_[node]), bytes / (rate_of(way, true) * factor_[node])};
}

double Loads::link_s(const GroupLink& link, std::size_t from_group, std::size_t to_group, double bytes) const {
  const std::int64_t shared =
      link.sharing == LinkSharing::line ? 1 : std::min(cluster_->groups[from_group].nodes, cluster_->groups[to_group].nodes);
  const auto known = link_factor_.find(link.name());
  const double factor = known == link_factor_.end() ? 1.0 : known->second;
  return bytes / (link.bandwidth.count() * factor * static_cast<double>(shared));
}

void Loads::over_network(std::int64_t from, std::int64_t to, std::int64_t bytes) {
  const auto a = static_cast<std::size_t>(node_of_[static_cast<std::size_t>(from)]),
             b = static_cast<std::size_t>(node_of_[static_cast<std::size_t>(to)]);
  const FabricLevel way = way_level(from, to);
  const auto size = static_cast<double>(bytes);
  const GroupPath* path = links_between(a, b);
  if (path != nullptr)
    for (const std::size_t i : path->links) {
      const GroupLink& link = ways_.links()[i];
      Way& on = between_[link.name()];
      on.bytes += bytes;
      on.seconds += link_s(link, group_of_[a], group_of_[b], size);
    }
  const auto end = [&](std::size_t node, std::int64_t device, Way& way_of_node, std::vector<double>& alone) {
    const EndSeconds takes = end_s(node, way, path != nullptr, size);
    way_of_node.bytes += bytes;
    way_of_node.seconds += takes.node;
    alone[static_cast<std::size_t>(device)] += takes.device;
  };
  end(a, from, nodes_[a].out, out_s_);
  end(b, to, nodes_[b].in, in_s_);
  raise(latency_s_, path != nullptr ? path->latency.count() : way.latency.count());
}

double Loads::busy_s(std::int64_t from, std::int64_t to, std::int64_t bytes) {
  const auto d = static_cast<std::size_t>(from);
  const auto size = static_cast<double>(bytes);
  if (distance(from, to) == 0) return inside_out_s_[d] + size / rate_of(level(from, to), false);
  const auto a = static_cast<std::size_t>(node_of_[d]), b = static_cast<std::size_t>(node_of_[static_cast<std::size_t>(to)]);
  const GroupPath* path = links_between(a, b);
  const EndSeconds takes = end_s(a, way_level(from, to), path != nullptr, size);
  double busy = std::max(nodes_[a].out.seconds + takes.node, out_s_[d] + takes.device);
  if (path == nullptr) return busy;
  for (const std::size_t i : path->links) {
    const GroupLink& link = ways_.links()[i];
    const auto on = between_.find(link.name());
    const double so_far = on == between_.end() ? 0.0 : on->second.seconds;
    busy = std::max(busy, so_far + link_s(link, group_of_[a], group_of_[b], size));
  }
  return busy;
}

std::vector<LinkLoad> Loads::links() const {
  std::vector<LinkLoad> out;
  const auto add = [&](const std::string& name, const Way& way, double least) {
    if (way.bytes > 0) out.push_back({name, way.bytes, std::max(way.seconds, least)});
  };
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const Ends& node = nodes_[n];
    const std::int64_t first = cluster_->first_device_of_node(static_cast<std::int64_t>(n));
    double out_s = 0, in_s = 0;
    for (std::int64_t d = first; d < first + cluster_->groups[group_of_[n]].devices_per_node; ++d) {
      raise(out_s, out_s_[static_cast<std::size_t>(d)]);
      raise(in_s, in_s_[static_cast<std::size_t>(d)]);
    }
    add(cat("node:", n, " out"), node.out, out_s);
    add(cat("node:", n, " in"), node.in, in_s);
    add(cat("inside node:", n), node.inside, 0);
  }
  for (const auto& [name, way] : between_) add(name, way, 0);
  std::stable_sort(out.begin(), out.end(), [](const LinkLoad& a, const LinkLoad& b) { return a.seconds > b.seconds; });
  return out;
}

double Loads::seconds() const {
  const std::vector<LinkLoad> all = links();
  return all.empty() ? 0.0 : all.front().seconds + latency_s_;
}

}  // namespace espalier::adapt
