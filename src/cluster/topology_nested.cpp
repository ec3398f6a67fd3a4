// SPDX-License-Identifier: Apache-2.0
// Adds links of nested levels: ports, trunks and pairs of each medium. topology_builders.h defines the rules.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/division.h"
#include "base/invariant.h"
#include "cluster/topology_assembly.h"

namespace espalier::cluster {
namespace {

enum class MediumKind : std::uint8_t { nvlink, pcie, network, other };

MediumKind medium_of(FabricKind kind) {
  switch (kind) {
    case FabricKind::nvswitch:
    case FabricKind::nvlink_mesh:
    case FabricKind::nvl72: return MediumKind::nvlink;
    case FabricKind::pcie_tree: return MediumKind::pcie;
    case FabricKind::rail_optimized:
    case FabricKind::fat_tree:
    case FabricKind::ethernet: return MediumKind::network;
    case FabricKind::on_chip:
    case FabricKind::other: return MediumKind::other;
  }
  return MediumKind::other;
}

bool same_medium(const FabricLevel& a, const FabricLevel& b) {
  return medium_of(a.kind) != MediumKind::other && medium_of(a.kind) == medium_of(b.kind);
}

double reached(const FabricLevel& level) { return level.bandwidth.count() * level.efficiency; }

/// Returns the number of devices behind one port. Returns 0 if the ratio of one device alone to all at once does not
/// fit shared ports.
std::int64_t devices_per_port(const FabricLevel& level, std::int64_t below) {
  const double all = level.bandwidth.count(), alone = level.bandwidth_alone.count();
  if (all <= 0 || alone <= all * (1.0 + 1e-9)) return 1;
  const double ratio = std::round(alone / all);
  if (std::abs(alone / all - ratio) > 1e-9 * ratio || ratio > static_cast<double>(below)) return 0;
  const auto share = static_cast<std::int64_t>(ratio);
  return below % share == 0 ? share : 0;
}

/// Returns the level that joins groups, no faster than the network of the group that traffic leaves.
FabricLevel within(FabricLevel level, const FabricLevel& network) {
  if (level.efficiency <= 0) return level;
  const double most = reached(network) / level.efficiency;
  if (level.bandwidth.count() <= most) return level;
  const double narrower = most / level.bandwidth.count();
  level.bandwidth = level.bandwidth * narrower;
  level.bandwidth_alone = level.bandwidth_alone * narrower;
  return level;
}

}  // namespace

std::int32_t TopologyAssembly::add_range(LinkRange range) {
  ESPALIER_CHECK(range.count >= 0 && range.capacity >= 0 && std::isfinite(range.capacity));
  ESPALIER_CHECK(made_.links_ + range.count < std::numeric_limits<LinkId>::max());
  range.first = static_cast<LinkId>(made_.links_);
  made_.links_ += range.count;
  made_.ranges_.push_back(std::move(range));
  return static_cast<std::int32_t>(made_.ranges_.size() - 1);
}

/// Adds the range and its mirror right after it; returns the first.
std::int32_t TopologyAssembly::add_both_ways(LinkRange range, const std::string& name) {
  range.name = name + " out";
  const std::int32_t out = add_range(range);
  range.name = name + " in";
  add_range(std::move(range));
  return out;
}

void TopologyAssembly::add_trunk(Topology::Run& run, const FabricLevel& level, std::size_t k, double capacity, double latency_s) {
  LinkRange range;
  range.names = LinkRange::Names::devices;
  range.count = ceil_div(run.count, run.levels[k].below);
  range.capacity = capacity;
  range.latency_s = latency_s;
  range.trace = level.trace;
  range.first_device = run.first;
  range.devices = run.levels[k].below;
  range.last_device = run.first + run.count - 1;
  run.levels[k].trunk = add_both_ways(std::move(range), level.name + " trunk");
}

void TopologyAssembly::add_pairs(Topology::Run& run, const FabricLevel& level, std::size_t k) {
  const std::int64_t span = run.levels[k].span;
  if (level.per_peer.count() <= 0 || span < 2 || span > kMaxMesh) return;
  LinkRange range;
  range.names = LinkRange::Names::pairs;
  range.count = ceil_div(run.count, span) * span * (span - 1);
  range.capacity = level.per_peer.count() * level.efficiency;
  range.trace = level.trace;
  range.first_device = run.first;
  range.devices = span;
  range.last_device = run.first + run.count - 1;
  run.levels[k].pairs = add_range(std::move(range));
}

/// Adds ports of levels lowest … after − 1, and the trunks that limit more than the ports do.
void TopologyAssembly::add_medium(Topology::Run& run, const std::vector<FabricLevel>& levels, std::size_t lowest,
                                  std::size_t after, bool joined) {
  std::vector<double> most(after + 1, 0.0);  // max over this level and those above
  for (std::size_t k = after; k-- > lowest;) most[k] = std::max(most[k + 1], reached(levels[k]));
  const FabricLevel& first = levels[lowest];
  const std::int64_t share = devices_per_port(first, run.levels[lowest].below);
  const bool pooled = share == 0 && run.levels[lowest].below > 1;
  const double alone = first.bandwidth_alone.count() * first.efficiency;

  LinkRange port;
  port.names = LinkRange::Names::devices;
  port.devices = std::max<std::int64_t>(1, share);
  port.count = ceil_div(run.count, port.devices);
  port.capacity = share > 1 ? std::max(alone, static_cast<double>(share) * most[lowest]) : most[lowest];
  if (pooled) port.capacity = std::max(alone, most[lowest]);
  port.latency_s = 0.5 * first.latency.count();
  port.trace = first.trace;
  port.first_device = run.first;
  port.last_device = run.first + run.count - 1;
  const double per_device = port.capacity / static_cast<double>(port.devices);
  Topology::Medium medium;
  medium.share = port.devices;
  medium.lowest = static_cast<std::int32_t>(lowest);
  medium.out = add_both_ways(std::move(port), first.name);

  double latency = first.latency.count();
  for (std::size_t k = lowest; k < after; ++k) {
    run.levels[k].medium = static_cast<std::int32_t>(run.media.size());
    const auto below = static_cast<double>(std::min(run.levels[k].below, run.count));
    const double more = std::max(0.0, levels[k].latency.count() - latency);
    latency += more;
    const bool holds = most[k] < per_device * (1.0 - 1e-9) || more > 0 || !levels[k].trace.empty();
    // At the level that joins groups, a node with few devices has the rate of one device alone.
    const bool joins = joined && k + 1 == levels.size();
    const double own = joins ? levels[k].bandwidth_alone.count() * levels[k].efficiency : 0.0;
    if (k == lowest ? pooled : holds) add_trunk(run, levels[k], k, std::max(own, below * most[k]), 0.5 * more);
    add_pairs(run, levels[k], k);
  }
  run.media.push_back(medium);
}

void TopologyAssembly::add_run(std::int64_t count, std::vector<FabricLevel> levels, std::int64_t site, std::int64_t joined) {
  ESPALIER_CHECK(count >= 1);
  Topology::Run run;
  run.first = made_.devices_;
  run.count = count;
  run.site = site;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    Topology::Level level;
    level.span = levels[k].span;
    level.below = k == 0 ? 1 : levels[k - 1].span;
    if (joined > 0 && k + 1 == levels.size()) {  // each node has a share of the level that joins the run with others
      level.below = joined;
      level.span = std::max(level.span, count);
    }
    ESPALIER_CHECK(level.span >= level.below);
    run.levels.push_back(level);
  }
  ESPALIER_CHECK(count == 1 || (!run.levels.empty() && run.levels.back().span >= count));
  for (std::size_t lowest = 0, after = 0; lowest < levels.size(); lowest = after) {
    after = lowest + 1;
    while (after < levels.size() && same_medium(levels[lowest], levels[after])) ++after;
    add_medium(run, levels, lowest, after, joined > 0);
  }
  run.through_network = joined > 0 || (!levels.empty() && medium_of(levels.back().kind) == MediumKind::network);
  made_.devices_ += count;
  made_.runs_.push_back(std::move(run));
}

void TopologyAssembly::count_nodes(std::int64_t devices_per_node, std::int64_t first_at_router) {
  made_.runs_.back().devices_per_node = devices_per_node;
  made_.runs_.back().first_at_router = first_at_router;
}

Topology TopologyAssembly::finish() && { return std::move(made_); }

Topology nested_topology(const Cluster& cluster) {
  ESPALIER_CHECK(!cluster.groups.empty());
  TopologyAssembly assembly;
  if (cluster.homogeneous()) {
    assembly.add_run(cluster.devices(), cluster.levels(), 0, 0);
    assembly.add_changes(cluster);
    return std::move(assembly).finish();
  }
  ESPALIER_CHECK(cluster.inter.size() == 1);
  for (const NodeGroup& group : cluster.groups) {
    std::vector<FabricLevel> levels = group.intra;
    levels.insert(levels.end(), group.inter.begin(), group.inter.end());
    if (group.inter.empty() && group.node_bandwidth.count() > 0) levels.push_back(network_of_one_node(group));
    const bool network = levels.size() > group.intra.size();
    levels.push_back(network ? within(cluster.inter.front(), levels.back()) : cluster.inter.front());
    assembly.add_run(group.nodes * group.devices_per_node, std::move(levels), 0, group.devices_per_node);
  }
  assembly.add_changes(cluster);
  return std::move(assembly).finish();
}

}  // namespace espalier::cluster
