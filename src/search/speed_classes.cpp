// SPDX-License-Identifier: Apache-2.0
#include "search/speed_classes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "search/node_sets.h"

namespace espalier::search {
namespace {

/// Holds neighbouring devices of a node that are all equally fast.
struct SpeedBlock {
  std::int64_t first = 0, count = 1;
  double speed = 1.0;
};

/// Adds devices first … first + count − 1 as the largest blocks.
void add_blocks(const Cluster& cluster, std::int64_t first, std::int64_t count, std::vector<SpeedBlock>& out) {
  const double speed = cluster.speed_of(first);
  bool alike = true;
  for (std::int64_t device = first; device < first + count; ++device) alike = alike && cluster.speed_of(device) == speed;
  if (alike) {
    out.push_back({first, count, speed});
    return;
  }
  const std::int64_t part = count % 2 == 0 ? count / 2 : 1;
  for (std::int64_t at = first; at < first + count; at += part) add_blocks(cluster, at, part, out);
}

/// Orders classes from the fastest to the slowest; among equally fast ones the largest come first.
struct Class {
  double speed = 1.0;
  std::int64_t count = 1;
  bool operator<(const Class& other) const { return speed != other.speed ? speed > other.speed : count > other.count; }
};

/// Returns the levels inside a block of `count` devices.
std::vector<FabricLevel> inside(const NodeGroup& group, std::int64_t count) {
  std::vector<FabricLevel> out;
  for (const FabricLevel& level : group.intra) {
    if (!out.empty() && out.back().span >= count) break;
    out.push_back(level);
  }
  while (out.size() > 1 && out[out.size() - 2].span >= count) out.pop_back();
  if (count == 1) out.clear();
  if (!out.empty()) out.back().span = count;
  return out;
}

/// Returns the levels between `nodes` nodes of `count` devices each, where the group has them between nodes of
/// `before` devices.
std::vector<FabricLevel> between(const std::vector<FabricLevel>& levels, std::int64_t before, std::int64_t count,
                                 std::int64_t nodes) {
  std::vector<FabricLevel> out;
  if (nodes < 2) return out;
  for (const FabricLevel& level : levels) {
    out.push_back(level);
    out.back().span = ceil_div(level.span, before) * count;
    if (out.back().span >= nodes * count) break;
  }
  if (!out.empty()) out.back().span = std::max(out.back().span, nodes * count);
  return out;
}

/// Returns the rate of one node of a group over a level of its network, as a link that each node has to itself.
GroupLink link_over(const FabricLevel& level, std::int64_t devices_per_node) {
  GroupLink link;
  link.bandwidth = BytesPerSecond(level.bandwidth.count() * level.efficiency * static_cast<double>(devices_per_node));
  link.latency = level.latency;
  link.sharing = LinkSharing::node;
  return link;
}

}  // namespace

bool has_classes(const Cluster& cluster) {
  return cluster.has_speeds() || (cluster.groups.size() > kMostKinds && cluster.links.empty());
}

/// Merges equal groups: each class has the groups of one kind as its nodes, joined by the network between the groups.
void SpeedClasses::merge_equal_groups(const Cluster& cluster) {
  exact_ = false;
  std::vector<std::vector<std::size_t>> classes;
  const auto equal = [&](std::size_t a, std::size_t b) {
    NodeGroup x = cluster.groups[a];
    x.name = cluster.groups[b].name;
    return x.nodes == 1 && x == cluster.groups[b];
  };
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
    const auto known = std::find_if(classes.begin(), classes.end(), [&](const auto& of) { return equal(of.front(), g); });
    if (known != classes.end())
      known->push_back(g);
    else
      classes.push_back({g});
  }
  for (const std::vector<std::size_t>& of : classes) {
    NodeGroup out = cluster.groups[of.front()];
    out.nodes = static_cast<std::int64_t>(of.size()) * out.nodes;
    if (of.size() > 1) {
      FabricLevel level = cluster.inter.back();
      level.span = out.nodes * out.devices_per_node;
      out.inter = {level};
    }
    for (const std::size_t g : of)
      for (std::int64_t d = 0; d < cluster.groups[g].nodes * cluster.groups[g].devices_per_node; ++d)
        devices_.push_back(cluster.first_device(g) + d);
    classes_.groups.push_back(std::move(out));
  }
  classes_.inter = cluster.inter;
  if (classes_.groups.size() == 1) classes_.inter = std::exchange(classes_.groups.front().inter, {});
}

SpeedClasses::SpeedClasses(const Cluster& cluster) {
  ESPALIER_CHECK(has_classes(cluster));
  classes_.name = cluster.name;
  classes_.memory_limit = cluster.memory_limit;
  classes_.currency = cluster.currency;
  if (!cluster.has_speeds()) {
    merge_equal_groups(cluster);
    ESPALIER_CHECK(devices_.size() == static_cast<std::size_t>(cluster.devices()));
    return;
  }
  exact_ = cluster.homogeneous() && cluster.inter.size() <= 1 && cluster.groups.front().segment == 0;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) add_group(cluster, g);
  if (classes_.groups.size() == 1)
    classes_.inter = std::exchange(classes_.groups.front().inter, {});
  else
    join(cluster);
  ESPALIER_CHECK(classes_.devices() == cluster.devices() && devices_.size() == static_cast<std::size_t>(cluster.devices()));
}

void SpeedClasses::add_group(const Cluster& cluster, std::size_t group) {
  const NodeGroup& of = cluster.groups[group];
  std::map<Class, std::vector<std::int64_t>> found;  // first devices of blocks
  std::vector<SpeedBlock> blocks;
  for (std::int64_t node = 0; node < of.nodes; ++node)
    add_blocks(cluster, cluster.first_device(group) + node * of.devices_per_node, of.devices_per_node, blocks);
  for (const SpeedBlock& block : blocks) found[{block.speed, block.count}].push_back(block.first);
  const std::vector<FabricLevel>& outside = cluster.homogeneous() ? cluster.inter : of.inter;
  const std::vector<FabricLevel>& network =
      outside.empty() ? of.intra : outside;  // a single node, whose blocks communicate inside it
  for (const auto& [kind, first] : found) {
    NodeGroup out = of;
    out.name = base::cat(of.name, "-", classes_.groups.size());
    out.nodes = static_cast<std::int64_t>(first.size());
    out.devices_per_node = kind.count;
    if (kind.speed != 1.0) out.device = of.device.at_speed(kind.speed);
    out.speed.clear();
    out.site.clear();
    out.nics.clear();
    out.intra = inside(of, kind.count);
    out.inter = between(network, of.devices_per_node, kind.count, out.nodes);
    out.segment = out.domain_nodes = 0;
    out.node_bandwidth =
        BytesPerSecond(of.node_bandwidth.count() * static_cast<double>(kind.count) / static_cast<double>(of.devices_per_node));
    exact_ = exact_ && kind.count == of.devices_per_node && first.back() - first.front() == (out.nodes - 1) * kind.count;
    for (const std::int64_t begin : first)
      for (std::int64_t k = 0; k < kind.count; ++k) devices_.push_back(begin + k);
    group_of_.push_back(group);
    classes_.groups.push_back(std::move(out));
  }
}

/// Joins classes of one group by its own network, those of different groups as their groups are.
void SpeedClasses::join(const Cluster& cluster) {
  if (cluster.homogeneous()) {
    FabricLevel level = cluster.inter.empty() ? cluster.groups.front().intra.back() : cluster.inter.front();
    level.span = cluster.devices();
    classes_.inter = {level};
    return;
  }
  classes_.inter = cluster.inter;
  for (std::size_t a = 0; a < group_of_.size(); ++a)
    for (std::size_t b = 0; b < group_of_.size(); ++b) {
      if (a == b) continue;
      const NodeGroup& own = cluster.groups[group_of_[a]];
      GroupLink link;
      if (group_of_[a] == group_of_[b]) {
        link = link_over(!own.inter.empty()   ? own.inter.front()
                         : !own.intra.empty() ? own.intra.back()
                                              : cluster.inter.back(),
                         classes_.groups[a].devices_per_node);
      } else if (cluster.links.empty()) {
        link = link_over(cluster.inter.back(), classes_.groups[a].devices_per_node);
      } else {
        const GroupPath path = cluster.path(group_of_[a], group_of_[b]);
        link.bandwidth = path.bandwidth;
        link.latency = path.latency;
        for (const std::size_t i : path.links)
          if (cluster.links[i].bandwidth <= path.bandwidth) link.sharing = cluster.links[i].sharing;
      }
      link.from = classes_.groups[a].name;
      link.to = classes_.groups[b].name;
      classes_.links.push_back(std::move(link));
    }
}

std::vector<Pipeline> SpeedClasses::on_devices(std::vector<Pipeline> pipelines) const {
  return search::on_devices(std::move(pipelines), devices_);
}

JudgeOfClasses::JudgeOfClasses(const Problem& problem, Evaluator& judge, const SpeedClasses& classes)
    : problem_(&problem),
      judge_(&judge),
      classes_(&classes),
      costs_(*problem.model, *problem.cluster, problem.training, *problem.engine) {}

std::int64_t JudgeOfClasses::peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) {
  return judge_->peak_bytes(structure, costs, worker);
}

std::int64_t JudgeOfClasses::iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan& plan,
                                          int worker) {
  return judge_->iteration_ns(structure, costs, plan, worker);
}

const std::vector<std::int64_t>* JudgeOfClasses::pass_ends(const ProgramStructure& structure, const cost::Costs& costs,
                                                           int worker) {
  return judge_->pass_ends(structure, costs, worker);
}

std::optional<PlanEvaluation> JudgeOfClasses::evaluate(const Problem&, const cost::ClusterCosts&, const Plan& plan) {
  Plan real = plan;
  real.pipelines = classes_->on_devices(std::move(real.pipelines));
  return judge_->evaluate(*problem_, costs_, real);
}

}  // namespace espalier::search
