// SPDX-License-Identifier: Apache-2.0
#include "cluster/presence.h"

#include <iterator>

#include "base/format.h"

namespace espalier::cluster {
namespace {

Error wrong(std::string found, std::string expected) {
  return {ErrorKind::bad_input, "events", std::move(found), std::move(expected),
          "all nodes are present at the start, unless an event at time 0 states otherwise"};
}

}  // namespace

Presence::Nodes& Presence::nodes_of(std::size_t group) {
  const auto [at, fresh] = groups_.try_emplace(group);
  if (!fresh) return at->second;
  const std::int64_t first = cluster_->first_node(group);
  for (std::int64_t node = first; node < first + cluster_->groups[group].nodes; ++node)
    at->second.here.insert(at->second.here.end(), node);
  return at->second;
}

Status Presence::move_one(std::int64_t node, bool join) {
  Nodes& nodes = nodes_of(cluster_->group_of_node(node));
  std::set<std::int64_t>& from = join ? nodes.away : nodes.here;
  std::set<std::int64_t>& to = join ? nodes.here : nodes.away;
  if (from.erase(node) == 0)
    return join ? wrong(cat("node:", node, " joins but is already present"), "an absent node")
                : wrong(cat("node:", node, " leaves but is already absent"), "a present node");
  to.insert(node);
  return {};
}

Status Presence::move_several(std::size_t group, double count, bool join) {
  Nodes& nodes = nodes_of(group);
  std::set<std::int64_t>& from = join ? nodes.away : nodes.here;
  if (count > static_cast<double>(from.size()))
    return wrong(cat(base::fixed(count, 0), " nodes of ", cluster_->groups[group].name, join ? " join" : " leave"),
                 cat("at most the ", from.size(), join ? " absent ones" : " present ones"));
  for (std::int64_t moved = 0; moved < static_cast<std::int64_t>(count); ++moved) {
    const std::int64_t node = join ? *nodes.away.begin() : *std::prev(nodes.here.end());
    if (Status status = move_one(node, join); !status.ok()) return status;
  }
  return {};
}

Status Presence::apply(const ClusterEvent& event) {
  if (event.kind != ClusterEventKind::join && event.kind != ClusterEventKind::leave) return {};
  const auto target = target_called(*cluster_, event.target, "events");
  if (!target) return target.error();
  const bool join = event.kind == ClusterEventKind::join;
  if (target->kind == ClusterTarget::Kind::node) return move_one(target->index, join);
  return move_several(static_cast<std::size_t>(target->index), event.value, join);
}

bool Presence::here(std::int64_t node) const {
  const auto group = groups_.find(cluster_->group_of_node(node));
  return group == groups_.end() || group->second.here.count(node) > 0;
}

std::vector<std::int64_t> Presence::away() const {
  std::vector<std::int64_t> nodes;
  for (const auto& [group, of_group] : groups_) nodes.insert(nodes.end(), of_group.away.begin(), of_group.away.end());
  return nodes;
}

}  // namespace espalier::cluster
