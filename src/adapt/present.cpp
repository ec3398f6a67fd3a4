// SPDX-License-Identifier: Apache-2.0
#include "adapt/present.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"

namespace espalier::adapt {
namespace {

void set_integer(base::Node& mapping, const std::string& key, std::int64_t value) {
  base::Node number;
  number.kind = base::NodeKind::integer;
  number.integer = value;
  number.real = static_cast<double>(value);
  number.text = std::to_string(value);
  for (auto& [name, node] : mapping.members)
    if (name == key) {
      node = number;
      return;
    }
  mapping.members.emplace_back(key, number);
}

void drop(base::Node& mapping, const std::set<std::string>& keys) {
  auto& members = mapping.members;
  members.erase(std::remove_if(members.begin(), members.end(), [&](const auto& m) { return keys.count(m.first) > 0; }),
                members.end());
}

std::string text_of(const base::Node& mapping, const std::string& key) {
  for (const auto& [name, node] : mapping.members)
    if (name == key) return node.text;
  return "";
}

/// Drops links and prices of traffic between groups and sites if some of them are absent.
void drop_joins(base::Node& root, const std::vector<base::Node>& kept) {
  if (kept.size() == 1) {
    drop(root, {"inter_group", "links", "egress_price_per_GB"});
    return;
  }
  std::set<std::string> known;
  for (const base::Node& group : kept) known.insert({text_of(group, "name"), text_of(group, "site")});
  for (auto& [key, node] : root.members) {
    if (key == "links")
      std::erase_if(node.items, [&](const base::Node& link) {
        return !link.members.empty() && (!known.contains(text_of(link, "from")) || !known.contains(text_of(link, "to")));
      });
    if (key == "egress_price_per_GB")
      std::erase_if(node.members, [&](const auto& price) {
        const std::size_t dash = price.first.find('-');
        return dash == std::string::npos || !known.contains(price.first.substr(0, dash)) ||
               !known.contains(price.first.substr(dash + 1));
      });
  }
}

/// Sets the name of a group that was named by its place, so that it keeps it when groups before it are dropped.
void set_name(base::Node& group, const std::string& name) {
  if (!text_of(group, "name").empty()) return;
  base::Node text;
  text.kind = base::NodeKind::string;
  text.text = name;
  group.members.emplace_back("name", text);
}

/// Returns the source of a cluster with these numbers of nodes per group. It omits changes over time and properties
/// of single devices.
std::string source_with(const Cluster& cluster, const std::string& source, const std::vector<std::int64_t>& nodes) {
  auto document = base::read_json(source, "cluster");
  if (!document) return source;
  base::Node& root = document->root;
  drop(root, {"capacity", "events", "speed"});
  auto groups = std::find_if(root.members.begin(), root.members.end(), [](const auto& m) { return m.first == "groups"; });
  if (groups == root.members.end()) {
    set_integer(root, "nodes", nodes.front());
    return base::to_json(root);
  }
  std::vector<base::Node> kept;
  for (std::size_t g = 0; g < groups->second.items.size() && g < nodes.size(); ++g) {
    if (nodes[g] == 0) continue;
    kept.push_back(groups->second.items[g]);
    drop(kept.back(), {"speed"});
    set_integer(kept.back(), "nodes", nodes[g]);
  }
  const bool fewer = kept.size() < groups->second.items.size();
  if (fewer)
    for (std::size_t g = 0, k = 0; g < nodes.size() && k < kept.size(); ++g)
      if (nodes[g] > 0) set_name(kept[k++], cluster.groups[g].name);
  groups->second.items = kept;
  if (fewer) drop_joins(root, kept);
  return base::to_json(root);
}

/// Holds the factors of capacities by node and by device. On a shared path they multiply.
struct Narrowed {
  std::map<std::int64_t, double> nodes, devices;
};

Narrowed narrowed(const Cluster& whole, const ClusterState& state) {
  Narrowed out;
  for (const CapacityFactor& c : state.capacity) {
    const auto target = target_called(whole, c.target, "cluster");
    ESPALIER_CHECK(target.ok());
    if (target->kind == ClusterTarget::Kind::link || target->kind == ClusterTarget::Kind::group) continue;
    auto& of_kind = target->kind == ClusterTarget::Kind::node ? out.nodes : out.devices;
    of_kind.try_emplace(target->index, 1.0).first->second *= c.factor;
  }
  return out;
}

/// Returns, for each group, the least factor on a path of its nodes or their devices to the network. A faster node
/// does not help its group.
std::vector<double> narrowed_groups(const Cluster& whole, const ClusterState& state, const std::set<std::int64_t>& used) {
  std::vector<double> least(whole.groups.size(), 1.0);
  const Narrowed factors = narrowed(whole, state);
  const auto take = [&](std::int64_t node, double factor) {
    if (used.count(node) == 0) return;
    double& of_group = least[whole.group_of_node(node)];
    of_group = std::min(of_group, factor);
  };
  for (const auto& [node, factor] : factors.nodes) take(node, factor);
  for (const auto& [device, factor] : factors.devices) {
    const std::int64_t node = whole.node_of(device);
    const auto of_node = factors.nodes.find(node);
    take(node, of_node == factors.nodes.end() ? factor : factor * of_node->second);
  }
  return least;
}

void narrow(std::vector<FabricLevel>& levels, double factor) {
  if (factor == 1.0) return;
  for (FabricLevel& level : levels) {
    level.bandwidth = BytesPerSecond(level.bandwidth.count() * factor);
    level.bandwidth_alone = BytesPerSecond(level.bandwidth_alone.count() * factor);
    level.trace.clear();
  }
}

/// Drops links at factor 0, which let nothing through, and links with a detour, which carry nothing. Other paths
/// replace them.
void drop_lost_links(std::vector<GroupLink>& links, const ClusterState& state) {
  std::erase_if(links, [&](const GroupLink& link) {
    const auto is_it = [name = link.name()](const std::string& called) { return called == name; };
    return link.bandwidth.count() <= 0 ||
           std::any_of(state.capacity.begin(), state.capacity.end(),
                       [&](const CapacityFactor& c) { return c.factor <= 0 && is_it(c.target); }) ||
           std::any_of(state.detours.begin(), state.detours.end(), [&](const Detour& d) { return is_it(d.link); });
  });
}

/// Drops links between groups and sites without nodes.
void drop_links_of_absent(Cluster& cluster) {
  std::set<std::string> there;
  for (const NodeGroup& group : cluster.groups) there.insert({group.name, group.site});
  std::erase_if(cluster.links, [&](const GroupLink& link) { return !there.contains(link.from) || !there.contains(link.to); });
}

void narrow_links(Cluster& cluster, const ClusterState& state) {
  for (const CapacityFactor& c : state.capacity)
    if (const auto at = cluster.link_called(c.target))
      cluster.links[*at].bandwidth = BytesPerSecond(cluster.links[*at].bandwidth.count() * c.factor);
  drop_lost_links(cluster.links, state);
}

/// Sets the speeds of the remaining devices by their present numbers.
void set_speeds(const Cluster& whole, const ClusterState& state, const std::vector<std::int64_t>& node_of, Present& out) {
  std::map<std::int64_t, double> factor;
  for (const Slowdown& slow : state.slow) factor[slow.device] = slow.factor;
  for (NodeGroup& group : out.cluster.groups) group.speed.clear();
  std::int64_t device = 0;
  for (const std::int64_t node : node_of) {
    const std::int64_t count = whole.groups[whole.group_of_node(node)].devices_per_node;
    for (std::int64_t k = 0; k < count; ++k, ++device) {
      const std::int64_t was = whole.first_device_of_node(node) + k;
      const auto slow = factor.find(was);
      const double speed = whole.speed_of(was) / (slow == factor.end() ? 1.0 : slow->second);
      if (speed != 1.0) out.cluster.groups[out.cluster.group_of(device)].speed.push_back({device, speed});
    }
  }
}

Status no_way(const Cluster& cluster, std::size_t a, std::size_t b) {
  return Error{ErrorKind::infeasible, "cluster", cat("no path from ", cluster.groups[a].name, " to ", cluster.groups[b].name),
               "groups that reach each other", "remove one of them: --lose"};
}

/// Checks that every group reaches every other. `linked`: the groups of the whole cluster are joined by links; if
/// none remains, they do not reach each other.
Status all_reached(const Cluster& cluster, bool linked) {
  if (!linked || cluster.groups.size() < 2) return {};
  if (cluster.links.empty()) return no_way(cluster, 0, 1);
  for (std::size_t a = 0; a < cluster.groups.size(); ++a)
    for (std::size_t b = 0; b < cluster.groups.size(); ++b)
      if (a != b && cluster.path(a, b).bandwidth.count() <= 0) return no_way(cluster, a, b);
  return {};
}

}  // namespace

Result<Present> present_cluster(const Cluster& whole, const std::string& source, const ClusterState& state,
                                const std::vector<std::int64_t>& also_away) {
  std::set<std::int64_t> away(state.away.begin(), state.away.end());
  away.insert(also_away.begin(), also_away.end());
  std::vector<std::int64_t> nodes;
  for (std::int64_t node = 0; node < whole.nodes(); ++node)
    if (away.count(node) == 0) nodes.push_back(node);
  return present_on(whole, source, state, nodes);
}

Result<Present> present_on(const Cluster& whole, const std::string& source, const ClusterState& state,
                           const std::vector<std::int64_t>& nodes) {
  if (nodes.empty())
    return Error{ErrorKind::infeasible, "cluster", "no remaining node", "at least one", "wait for nodes to join"};
  Present out;
  out.cluster = whole;
  out.cluster.capacity.clear();
  out.cluster.events.clear();
  out.cluster.token_buckets.clear();
  out.cluster.groups.clear();
  out.node_of = nodes;
  const std::vector<double> factors = narrowed_groups(whole, state, std::set<std::int64_t>(nodes.begin(), nodes.end()));
  std::vector<std::int64_t> counts;
  double least = 1.0;
  for (std::size_t g = 0; g < whole.groups.size(); ++g) {
    NodeGroup group = whole.groups[g];
    group.nodes = std::count_if(nodes.begin(), nodes.end(), [&](std::int64_t node) { return whole.group_of_node(node) == g; });
    counts.push_back(group.nodes);
    if (group.nodes == 0) continue;
    narrow(group.inter, factors[g]);
    group.node_bandwidth = BytesPerSecond(group.node_bandwidth.count() * factors[g]);
    least = std::min(least, factors[g]);
    out.cluster.groups.push_back(std::move(group));
  }
  narrow(out.cluster.inter, least);
  drop_links_of_absent(out.cluster);
  narrow_links(out.cluster, state);
  if (out.cluster.groups.size() == 1 && !whole.homogeneous()) {
    out.cluster.inter = std::exchange(out.cluster.groups.front().inter, {});
    out.cluster.links.clear();
    out.cluster.egress.clear();
  }
  set_speeds(whole, state, out.node_of, out);
  if (Status status = all_reached(out.cluster, !whole.links.empty()); !status.ok()) return status.error();
  out.source = source_with(whole, source, counts);
  return out;
}

std::string without_changes(const std::string& source) {
  auto document = base::read_json(source, "cluster");
  if (!document) return source;
  drop(document->root, {"capacity", "events"});
  return base::to_json(document->root);
}

Ways::Ways(const Cluster& whole, const ClusterState& state) : open_(whole), linked_(!whole.links.empty()) {
  drop_lost_links(open_.links, state);
}

const GroupPath* Ways::way(std::size_t from, std::size_t to) {
  if (from != to && linked_ && open_.links.empty()) return nullptr;
  const auto [at, is_new] = known_.try_emplace({from, to});
  if (is_new) at->second = open_.path(from, to);
  return linked_ && from != to && at->second.bandwidth.count() <= 0 ? nullptr : &at->second;
}

std::vector<std::vector<std::int64_t>> joined_parts(const Cluster& whole, const ClusterState& state,
                                                    const std::vector<std::int64_t>& nodes) {
  Ways ways(whole, state);
  std::vector<std::vector<std::int64_t>> parts;
  for (const std::int64_t node : nodes) {
    const std::size_t group = whole.group_of_node(node);
    const auto joins = [&](const std::vector<std::int64_t>& part) {
      return ways.joined(whole.group_of_node(part.front()), group);
    };
    const auto at = std::find_if(parts.begin(), parts.end(), joins);
    (at == parts.end() ? parts.emplace_back() : *at).push_back(node);
  }
  return parts;
}

std::vector<std::int64_t> device_numbers(const Present& present, const Cluster& whole) {
  std::vector<std::int64_t> out;
  for (const std::int64_t node : present.node_of) {
    const std::int64_t first = whole.first_device_of_node(node);
    for (std::int64_t k = 0; k < whole.groups[whole.group_of_node(node)].devices_per_node; ++k) out.push_back(first + k);
  }
  return out;
}

Result<Enlarged> enlarged(const Cluster& cluster, const std::string& source, std::size_t group, std::int64_t nodes) {
  Enlarged out;
  std::vector<std::int64_t> counts;
  const std::int64_t end = cluster.first_device(group) + cluster.groups[group].nodes * cluster.groups[group].devices_per_node;
  const std::int64_t more = nodes * cluster.groups[group].devices_per_node;
  for (std::int64_t d = 0; d < cluster.devices(); ++d) out.moved.push_back(d < end ? d : d + more);
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) counts.push_back(cluster.groups[g].nodes + (g == group ? nodes : 0));
  out.source = source_with(cluster, source, counts);
  // The source is read again because the joins of nodes may depend on how many there are.
  auto read = load_cluster(out.source, "cluster");
  if (!read) return read.error();
  out.cluster = std::move(*read);
  out.cluster.name = cluster.name;
  return out;
}

}  // namespace espalier::adapt
