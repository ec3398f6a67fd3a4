// SPDX-License-Identifier: Apache-2.0
#include "cost/scattered_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "plan/program.h"

namespace espalier::cost {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// Holds the nodes of a group in the order in which its ring reaches them, and how many members each holds.
struct NodeRing {
  std::vector<std::int64_t> nodes;
  std::vector<std::int64_t> members;
};

NodeRing ring_of(const Cluster& cluster, const std::vector<std::int64_t>& group) {
  NodeRing ring;
  for (const std::int64_t device : group) {
    const std::int64_t node = cluster.node_of(device);
    const auto known = std::find(ring.nodes.begin(), ring.nodes.end(), node);
    if (known == ring.nodes.end()) {
      ring.nodes.push_back(node);
      ring.members.push_back(1);
    } else {
      ++ring.members[static_cast<std::size_t>(known - ring.nodes.begin())];
    }
  }
  return ring;
}

double rate(const FabricLevel& level) { return level.bandwidth.count() * level.efficiency; }
double rate_alone(const FabricLevel& level) { return level.bandwidth_alone.count() * level.efficiency; }

/// Returns the bytes/s that all devices of a node have of a level, at least what one has alone.
double node_rate(const FabricLevel& level, std::int64_t devices) {
  return std::max(rate(level) * static_cast<double>(devices), rate_alone(level));
}

/// Counts the rings of a stage that pass over each line between node groups.
std::map<std::size_t, double> crossings(const Cluster& cluster, const GroupPaths& paths,
                                        const std::vector<std::vector<std::int64_t>>& groups) {
  std::map<std::size_t, double> count;
  for (const auto& group : groups) {
    const NodeRing ring = ring_of(cluster, group);
    for (std::size_t i = 0; i < ring.nodes.size() && ring.nodes.size() > 1; ++i) {
      const std::size_t a = cluster.group_of_node(ring.nodes[i]),
                        b = cluster.group_of_node(ring.nodes[(i + 1) % ring.nodes.size()]);
      if (a == b) continue;
      for (const std::size_t link : paths[a * cluster.groups.size() + b].links) count[link] += 1;
    }
  }
  return count;
}

/// Returns the kind of the device at a place in its stage.
ScatteredStages::Kind kind_of(const Cluster& cluster, const Stage& stage, std::int64_t device, std::size_t place) {
  ScatteredStages::Kind kind;
  kind.group = cluster.group_of(device);
  kind.speed = cluster.speed_of(device);
  const std::size_t replica = place / static_cast<std::size_t>(stage.chunks.front().ranges.front().strategy.tp);
  if (!stage.samples_per_replica.empty()) kind.samples = stage.samples_per_replica[replica];
  if (!stage.state_shares.empty()) {
    const auto all = static_cast<double>(std::accumulate(stage.state_shares.begin(), stage.state_shares.end(), std::int64_t{0}));
    kind.states = static_cast<double>(stage.state_shares[replica]) / all * static_cast<double>(stage.state_shares.size());
  }
  return kind;
}

/// Returns the time of collectives over the replicas with unequal parts, relative to equal ones.
double unequal_parts(const Stage& stage) {
  if (stage.state_shares.size() < 2) return 1.0;
  const auto all = static_cast<double>(std::accumulate(stage.state_shares.begin(), stage.state_shares.end(), std::int64_t{0}));
  const auto least = static_cast<double>(*std::min_element(stage.state_shares.begin(), stage.state_shares.end()));
  return (1.0 - least / all) / (1.0 - 1.0 / static_cast<double>(stage.state_shares.size()));
}

}  // namespace

bool is_scattered(const Cluster& cluster, const Pipeline& pipeline) {
  for (const Stage& stage : pipeline.stages) {
    const DeviceRange& range = stage.devices.front();
    if (uneven_replicas(stage)) return true;
    if (stage.devices.size() != 1 || (range.stride != 1 && range.count > 1)) return true;
    if (cluster.group_of(range.first) != cluster.group_of(range.first + range.count - 1)) return true;
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& r : chunk.ranges)
        if (r.strategy.order != RankOrder::tp_cp_dp_pp) return true;
  }
  return false;
}

std::deque<ScatteredStages> scattered_pipelines(const Cluster& cluster, const Plan& plan) {
  std::deque<ScatteredStages> out;
  const auto scattered = [&](const Pipeline& pipeline) { return is_scattered(cluster, pipeline); };
  if (std::none_of(plan.pipelines.begin(), plan.pipelines.end(), scattered)) return out;
  const std::shared_ptr<const GroupPaths> paths = group_paths(cluster);
  for (const Pipeline& pipeline : plan.pipelines) out.emplace_back(cluster, pipeline, paths);
  return out;
}

Status scattered_stage(const Plan& plan, const Cluster& cluster) {
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    Pipeline one = plan.pipelines[p];
    for (std::size_t i = 0; i < plan.pipelines[p].stages.size(); ++i) {
      one.stages = {plan.pipelines[p].stages[i]};
      if (is_scattered(cluster, one))
        return Error{ErrorKind::bad_input, base::cat("$.pipelines[", p, "].stages[", i, "].devices"),
                     "devices out of order, or of several node groups",
                     "consecutive devices of one node group, in order tp-cp-dp-pp", ""};
    }
  }
  return {};
}

std::shared_ptr<const GroupPaths> group_paths(const Cluster& cluster) {
  auto paths = std::make_shared<GroupPaths>();
  for (std::size_t a = 0; a < cluster.groups.size(); ++a)
    for (std::size_t b = 0; b < cluster.groups.size(); ++b) paths->push_back(cluster.path(a, b));
  return paths;
}

ScatteredStages::ScatteredStages(const Cluster& cluster, const Pipeline& pipeline, std::shared_ptr<const GroupPaths> paths)
    : cluster_(&cluster), pipeline_(&pipeline), paths_(paths ? std::move(paths) : group_paths(cluster)) {
  for (const NodeGroup& group : cluster.groups) {
    widest_ = std::lcm(widest_, group.devices_per_node);
    for (const FabricLevel& level : group.intra) widest_ = std::lcm(widest_, std::max<std::int64_t>(1, level.span));
  }
  auto listed = std::make_shared<StageDevices>();
  for (const Stage& stage : pipeline.stages) {
    devices_.push_back(devices_of(stage.devices));
    listed->emplace_back();
    kinds_.emplace_back();
    for (const std::int64_t device : devices_.back()) {
      listed->back().push_back(renumbered(device));
      const Kind kind = kind_of(cluster, stage, device, listed->back().size() - 1);
      if (std::find(kinds_.back().begin(), kinds_.back().end(), kind) == kinds_.back().end()) kinds_.back().push_back(kind);
    }
  }
  listed_ = std::move(listed);
  for (std::size_t i = 0; i + 1 < devices_.size(); ++i) add_loads(devices_[i], devices_[i + 1], usual_);
}

std::int64_t ScatteredStages::renumbered(std::int64_t device) const {
  const std::int64_t node = cluster_->node_of(device);
  return node * widest_ + (device - cluster_->first_device_of_node(node));
}

FabricLevel ScatteredStages::usual_network(std::size_t group) const {
  const NodeGroup& at = cluster_->groups[group];
  if (!cluster_->homogeneous() && !at.inter.empty()) return at.inter.front();
  ESPALIER_CHECK(!cluster_->inter.empty());
  return cluster_->homogeneous() ? cluster_->inter.front() : cluster_->inter.back();
}

/// Returns the bytes/s that `members` devices of a node have of its interfaces.
double ScatteredStages::share(std::int64_t node, std::int64_t members) const {
  const std::size_t group = cluster_->group_of_node(node);
  const NodeGroup& at = cluster_->groups[group];
  const auto devices = static_cast<double>(at.devices_per_node);
  if (!at.inter.empty() || cluster_->homogeneous()) return rate(usual_network(group)) * static_cast<double>(members);
  return at.node_bandwidth.count() > 0 ? at.node_bandwidth.count() * static_cast<double>(members) / devices : kUnlimited;
}

/// Returns the bytes/s that they have of the network that joins groups without links.
double ScatteredStages::joining_share(std::int64_t node, std::int64_t members) const {
  const auto devices = static_cast<double>(cluster_->groups[cluster_->group_of_node(node)].devices_per_node);
  return joining(node).all * static_cast<double>(members) / devices;
}

FabricLevel ScatteredStages::network_level(std::size_t stage, GroupKind kind) const {
  const Strategy& strategy = pipeline_->stages[stage].chunks.front().ranges.front().strategy;
  FabricLevel level = usual_network(kinds_[stage].front().group);
  Strategy whole = strategy;
  whole.zero = ZeroStage::none;
  whole.shard = 1;
  const auto groups = process_groups(kind, kind == GroupKind::data_shard ? whole : strategy, devices_[stage]);
  const std::map<std::size_t, double> crossed = crossings(*cluster_, *paths_, groups);
  double least = kUnlimited, latency = 0;
  for (const auto& group : groups) {
    const NodeRing ring = ring_of(*cluster_, group);
    if (ring.nodes.size() < 2) continue;
    double sum = 0;
    for (std::size_t i = 0; i < ring.nodes.size(); ++i) {
      const std::size_t j = (i + 1) % ring.nodes.size();
      const std::size_t a = cluster_->group_of_node(ring.nodes[i]), b = cluster_->group_of_node(ring.nodes[j]);
      double way = std::min(share(ring.nodes[i], ring.members[i]), share(ring.nodes[j], ring.members[j]));
      const GroupPath& way_of = path(a, b);
      if (a != b)
        for (const std::size_t l : way_of.links) {
          const GroupLink& link = cluster_->links[l];
          const double part = link.sharing == LinkSharing::line ? 1.0 / crossed.at(l)
                                                                : static_cast<double>(ring.members[i]) /
                                                                      static_cast<double>(cluster_->groups[a].devices_per_node);
          way = std::min(way, link.bandwidth.count() * part);
        }
      if (a != b && cluster_->links.empty())
        way = std::min({way, joining_share(ring.nodes[i], ring.members[i]), joining_share(ring.nodes[j], ring.members[j])});
      if (a != b && !cluster_->links.empty() && way_of.links.empty() && way_of.bandwidth.count() > 0)
        way = std::min(way, way_of.bandwidth.count() * static_cast<double>(ring.members[i]) /
                                static_cast<double>(cluster_->groups[a].devices_per_node));
      sum += way_of.latency.count();
      least = std::min(least, way);
    }
    latency = std::max(latency, sum / static_cast<double>(ring.nodes.size()));
  }
  level.span = widest_ * cluster_->nodes();
  if (least == kUnlimited) return level;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const Strategy& s = pipeline_->stages[i].chunks.front().ranges.front().strategy;
    Strategy all = s;
    all.zero = ZeroStage::none;
    all.shard = 1;
    for (const auto& group : process_groups(kind, kind == GroupKind::data_shard ? all : s, devices_[i])) {
      const NodeRing ring = ring_of(*cluster_, group);
      fewest = std::min(fewest, *std::min_element(ring.members.begin(), ring.members.end()));
    }
  }
  level.bandwidth = level.bandwidth_alone = BytesPerSecond(least / static_cast<double>(fewest));
  level.efficiency = 1.0;
  level.latency = Seconds(latency);
  return level;
}

Fabric ScatteredStages::fabric(std::size_t stage, const Fabric& usual, const EngineModel& engine) const {
  Fabric out = usual;
  const auto keep = static_cast<std::ptrdiff_t>(usual.node_levels);
  const auto with = [&](std::vector<FabricLevel> levels, GroupKind kind, double time_scale) {
    levels.erase(levels.begin() + std::min(keep, static_cast<std::ptrdiff_t>(levels.size())), levels.end());
    FabricLevel network = network_level(stage, kind);
    network.efficiency /= time_scale;
    network.latency = Seconds(network.latency.count() * time_scale);
    levels.push_back(network);
    return levels;
  };
  out.levels = with(usual.levels, GroupKind::data_shard, 1.0);
  out.tensor_levels = with(usual.tensor_levels, GroupKind::tensor, engine.coefficients.tensor_communication);
  const double unequal = unequal_parts(pipeline_->stages[stage]);
  out.data_levels = with(usual.data_levels, GroupKind::data_shard, engine.coefficients.data_communication);
  if (unequal != 1.0)
    for (FabricLevel& level : out.data_levels) level.efficiency /= unequal;
  // Levels inside a node extend to its end, in the new numbers as well.
  for (auto* levels : {&out.levels, &out.tensor_levels, &out.data_levels})
    if (keep > 0) (*levels)[static_cast<std::size_t>(keep) - 1].span = widest_;
  out.listed = listed_;
  return out;
}

/// Returns the rates of the network that joins groups without links: what all devices of a node have of it together,
/// and what one of them has at most.
ScatteredStages::Way ScatteredStages::joining(std::int64_t node) const {
  const FabricLevel& level = cluster_->inter.back();
  const std::int64_t devices = cluster_->groups[cluster_->group_of_node(node)].devices_per_node;
  return {node_rate(level, devices), std::max(rate(level), rate_alone(level))};
}

BytesPerSecond joined_node_rate(const Cluster& cluster, std::size_t group) {
  const NodeGroup& at = cluster.groups[group];
  double least = node_rate(cluster.inter.back(), at.devices_per_node);
  if (!at.inter.empty())
    least = std::min(least, node_rate(at.inter.front(), at.devices_per_node));
  else if (at.node_bandwidth.count() > 0)
    least = std::min(least, at.node_bandwidth.count());
  return BytesPerSecond(least);
}

/// Returns the interfaces of a node through which a device leaves it. Consecutive devices share one where the level
/// gives one device alone as much as these together. Otherwise it is all of them.
ScatteredStages::Port ScatteredStages::port_of(std::int64_t device) const {
  const std::int64_t node = cluster_->node_of(device), place = device - cluster_->first_device_of_node(node);
  const std::size_t group = cluster_->group_of_node(node);
  const NodeGroup& at = cluster_->groups[group];
  const auto devices = static_cast<double>(at.devices_per_node);
  if (at.inter.empty() && !cluster_->homogeneous()) {
    const double all = at.node_bandwidth.count() > 0 ? at.node_bandwidth.count() : kUnlimited;
    return {0, {all, all}};
  }
  const FabricLevel level = usual_network(group);
  const double each = rate(level), alone = std::max(each, rate_alone(level));
  const double ratio = std::round(alone / each);
  const auto sharing = static_cast<std::int64_t>(ratio);
  const bool whole = std::abs(alone / each - ratio) <= 1e-9 * ratio && sharing <= at.devices_per_node;
  if (whole && at.devices_per_node % sharing == 0) return {place / sharing, {alone, alone}};
  return {0, {each * devices, alone}};
}

/// Calls visit(part of the network, what it carries) for every part that a message from `a` to `b` on another node
/// shares with others.
template <class Visit>
void ScatteredStages::each_part(std::int64_t a, std::int64_t b, const Visit& visit) const {
  const std::int64_t u = cluster_->node_of(a), v = cluster_->node_of(b);
  const Port out = port_of(a), in = port_of(b);
  visit(Part{PartKind::out, u, out.number, 0}, out.carries);
  visit(Part{PartKind::in, v, in.number, 0}, in.carries);
  const std::size_t g = cluster_->group_of_node(u), h = cluster_->group_of_node(v);
  if (g == h) return;
  const GroupPath& way = path(g, h);
  if (cluster_->links.empty()) {
    visit(Part{PartKind::joined_out, u, 0, 0}, joining(u));
    visit(Part{PartKind::joined_in, v, 0, 0}, joining(v));
  } else if (way.links.empty() && way.bandwidth.count() > 0) {  // the interfaces of both groups, those of their nodes
    visit(Part{PartKind::joined_out, u, 0, 0}, Way{way.bandwidth.count(), way.bandwidth.count()});
    visit(Part{PartKind::joined_in, v, 0, 0}, Way{way.bandwidth.count(), way.bandwidth.count()});
  }
  for (const std::size_t l : way.links) {
    const GroupLink& link = cluster_->links[l];
    const Way carries{link.bandwidth.count(), link.bandwidth.count()};
    const auto number = static_cast<std::int64_t>(l);
    switch (link.sharing) {
      case LinkSharing::line: visit(Part{PartKind::line, number, 0, 0}, carries); break;
      case LinkSharing::node_pair: visit(Part{PartKind::node_pair, number, u, v}, carries); break;
      case LinkSharing::node:
        visit(Part{PartKind::link_out, number, u, 0}, carries);
        visit(Part{PartKind::link_in, number, v, 0}, carries);
        break;
    }
  }
}

/// Adds the loads of messages from each device of `a` to the one at its place in `b`. If the numbers differ, each
/// device of the larger list has a message of its own, of the part of the bytes that the busier end moves.
void ScatteredStages::add_loads(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b, Loads& loads) const {
  const std::size_t pairs = std::max(a.size(), b.size());
  const double part = static_cast<double>(std::min(a.size(), b.size())) / static_cast<double>(pairs);
  for (std::size_t n = 0; n < pairs; ++n) {
    const std::int64_t from = a[n * a.size() / pairs], to = b[n * b.size() / pairs];
    if (cluster_->node_of(from) == cluster_->node_of(to)) continue;
    each_part(from, to, [&](const Part& of, const Way&) { loads[of] += part; });
  }
}

FabricLevel ScatteredStages::link(std::size_t from, std::size_t to) const { return link(from, *this, to, usual_); }

namespace {

std::vector<LayerSpan> held_layers(const Stage& stage) {
  std::vector<LayerSpan> out;
  for (const Chunk& chunk : stage.chunks) out.push_back({chunk.ranges.front().first, chunk.ranges.back().last});
  return out;
}

/// Returns whether stage i of `a` and stage j of `b` hold layers in common: [i][j].
std::vector<std::vector<bool>> shared_layers(const Pipeline& a, const Pipeline& b) {
  std::vector<std::vector<bool>> out(a.stages.size(), std::vector<bool>(b.stages.size(), false));
  for (std::size_t i = 0; i < a.stages.size(); ++i)
    for (std::size_t j = 0; j < b.stages.size(); ++j)
      for (const LayerSpan& x : held_layers(a.stages[i]))
        for (const LayerSpan& y : held_layers(b.stages[j]))
          if (x.first <= y.last && y.first <= x.last) out[i][j] = true;
  return out;
}

void raise(ScatteredStages::Loads& to, const ScatteredStages::Loads& by) {
  for (const auto& [part, load] : by) to[part] = std::max(to[part], load);
}

void add(ScatteredStages::Loads& to, const ScatteredStages::Loads& by) {
  for (const auto& [part, load] : by) to[part] += load;
}

}  // namespace

ScatteredStages::Loads ScatteredStages::meetings(const ScatteredStages& other) const {
  const std::vector<std::vector<bool>> meets = shared_layers(*pipeline_, *other.pipeline_);
  // A stage meets one stage at a time, so only the largest load of any meeting counts for its own messages.
  Loads here, there;
  std::vector<Loads> theirs(other.devices_.size());
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Loads most;
    for (std::size_t j = 0; j < other.devices_.size(); ++j) {
      if (!meets[i][j]) continue;
      Loads own;
      add_loads(devices_[i], other.devices_[j], own);
      raise(most, own);
      raise(theirs[j], own);
    }
    add(here, most);
  }
  for (const Loads& most : theirs) add(there, most);
  Loads out;
  for (const auto& [part, load] : here) {
    const double other_load = there.at(part);
    const bool leaves = part.kind == PartKind::out || part.kind == PartKind::joined_out || part.kind == PartKind::link_out;
    const bool arrives = part.kind == PartKind::in || part.kind == PartKind::joined_in || part.kind == PartKind::link_in;
    out[part] = leaves ? load : arrives ? other_load : std::min(load, other_load);
  }
  return out;
}

FabricLevel ScatteredStages::link(std::size_t from, const ScatteredStages& other, std::size_t to, const Loads& at_once) const {
  const std::vector<std::int64_t>&a = devices_[from], &b = other.devices_[to];
  Loads own;
  add_loads(a, b, own);
  // Interfaces also carry what other stages send over them; lines carry the messages of one boundary at a time.
  const auto load_of = [&](const Part& part) {
    const double here = own.at(part);
    if (part.kind == PartKind::line) return here;
    const auto usual = at_once.find(part);
    return usual == at_once.end() ? here : std::max(here, usual->second);
  };
  FabricLevel slowest;
  double least = kUnlimited, latency = 0;
  const std::size_t pairs = std::max(a.size(), b.size());
  for (std::size_t n = 0; n < pairs; ++n) {
    const std::int64_t x = a[n * a.size() / pairs], y = b[n * b.size() / pairs];
    const std::size_t g = cluster_->group_of(x), h = cluster_->group_of(y);
    FabricLevel level;
    double way = kUnlimited;
    if (cluster_->node_of(x) == cluster_->node_of(y)) {
      if (cluster_->groups[g].intra.empty()) continue;
      level = cluster_->groups[g].intra.back();
      way = rate(level);
      if (level.per_peer.count() > 0) way = std::min(way, level.per_peer.count() * level.efficiency);
    } else {
      level = usual_network(g);
      each_part(x, y, [&](const Part& part, const Way& carries) {
        way = std::min({way, carries.all / load_of(part), carries.one});
      });
      level.latency = path(g, h).latency;
    }
    latency = std::max(latency, level.latency.count());
    if (way < least) {
      least = way;
      slowest = level;
    }
  }
  slowest.bandwidth = slowest.bandwidth_alone = BytesPerSecond(least);
  slowest.efficiency = 1.0;
  slowest.per_peer = BytesPerSecond(0);
  slowest.latency = Seconds(latency);
  slowest.span = widest_ * cluster_->nodes();
  return slowest;
}

}  // namespace espalier::cost
