// SPDX-License-Identifier: Apache-2.0
#include "search/across_prices.h"

#include <algorithm>

#include "base/invariant.h"
#include "cost/bound.h"
#include "cost/chunk_sum.h"
#include "plan/engine.h"
#include "search/below_prices.h"

namespace espalier::search {
namespace {

/// Returns a cluster with one node of the group's devices, so large that no group of ranks leaves it.
Cluster one_node(const Cluster& cluster, std::size_t group, std::int64_t devices) {
  Cluster out = cluster.alone(group);
  NodeGroup& node = out.groups.front();
  FabricLevel level = !node.intra.empty() ? node.intra.back() : !out.inter.empty() ? out.inter.back() : cluster.inter.back();
  level.span = devices;
  node.nodes = 1;
  node.devices_per_node = devices;
  node.segment = node.domain_nodes = 0;
  node.intra = {level};
  out.inter.clear();
  return out;
}

double fastest_of(const Cluster& cluster, std::size_t group) {
  double fastest = 1.0;
  for (const DeviceSpeed& device : cluster.groups[group].speed) fastest = std::max(fastest, device.factor);
  return fastest;
}

}  // namespace

LayerCompute::LayerCompute(const Problem& problem) : problem_(&problem) {}

const std::vector<double>& LayerCompute::of(std::size_t group, const Configuration& c) {
  const Strategy& s = c.strategy;
  const auto [known, added] = known_.try_emplace({static_cast<std::int64_t>(group), s.tp, s.cp,
                                                  static_cast<std::int64_t>(s.cp_kind), static_cast<std::int64_t>(s.sp), s.ep,
                                                  s.etp, c.schedule.micro_batch, s.dp, c.schedule.stages, s.overlap.tp ? 1 : 0});
  if (!added) return known->second;
  const Cluster alone = one_node(*problem_->cluster, group, s.devices() * c.schedule.stages);
  const cost::CostContext context(*problem_->model, alone, problem_->training, *problem_->engine);
  Strategy plain = s;
  plain.zero = ZeroStage::none;
  plain.shard = 1;
  plain.recompute = {};
  plain.order = RankOrder::tp_cp_dp_pp;
  std::vector<cost::LayerCost> layers;
  cost::layer_costs(context, plain, c.schedule.stages, c.schedule.micro_batch, layers);
  const double fastest = fastest_of(*problem_->cluster, group);
  for (const cost::LayerCost& layer : layers)
    known->second.push_back(kBelow * static_cast<double>(layer.forward.compute_ns + layer.backward.compute_ns) / fastest);
  return known->second;
}

DeviceClasses classes_of(const Cluster& cluster, const NodeSet& nodes) {
  DeviceClasses out;
  for (const GroupPart& part : nodes) {
    const NodeGroup& own = cluster.groups[part.group];
    const auto alike = [&](std::size_t g) {
      return cluster.groups[g].device == own.device && fastest_of(cluster, g) == fastest_of(cluster, part.group);
    };
    const auto known = std::find_if(out.group.begin(), out.group.end(), alike);
    out.of_part.push_back(static_cast<std::size_t>(known - out.group.begin()));
    if (known == out.group.end()) out.group.push_back(part.group);
  }
  return out;
}

std::vector<std::uint64_t> classes_of_stages(const Cluster& cluster, const NodeSet& nodes, const DeviceClasses& classes,
                                             const Configuration& c) {
  ESPALIER_CHECK(classes.group.size() <= kMostClasses);
  std::vector<std::int64_t> ends;  // end of each part, in places
  for (const GroupPart& part : nodes)
    ends.push_back((ends.empty() ? 0 : ends.back()) + part.nodes * cluster.groups[part.group].devices_per_node);
  const auto part_of = [&](std::int64_t place) {
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
  };
  // A run of places touches every part from the part of its first place to that of its last place.
  const auto run = [&](std::int64_t first, std::int64_t count) {
    std::uint64_t touched = 0;
    for (std::size_t part = part_of(first); part <= part_of(first + count - 1); ++part)
      touched |= std::uint64_t{1} << classes.of_part[part];
    return touched;
  };
  const Strategy& s = c.strategy;
  const std::int64_t inner = std::int64_t{s.tp} * s.cp;
  const bool strided = s.order == RankOrder::tp_cp_pp_dp && s.dp > 1 && c.schedule.stages > 1;
  std::vector<std::uint64_t> out;
  for (std::int64_t i = 0; i < c.schedule.stages; ++i) {
    out.push_back(0);
    if (!strided) out.back() = run(i * inner * s.dp, inner * s.dp);
    for (std::int64_t d = 0; strided && d < s.dp; ++d) out.back() |= run(inner * (i + c.schedule.stages * d), inner);
  }
  return out;
}

Plan plan_across(const Problem& problem, const Cluster& own, const std::vector<std::int64_t>& devices, const Configuration& c) {
  Plan plan = make_uniform_plan(*problem.model, own, problem.training, problem.engine->name, c.strategy, c.schedule,
                                problem.engine->split);
  plan.pipelines = on_devices(std::move(plan.pipelines), devices);
  return plan;
}

std::optional<Cluster> best_joined(const Cluster& cluster, const NodeSet& nodes) {
  if (!cluster.links.empty() || cluster.has_speeds()) return std::nullopt;
  const NodeGroup& like = cluster.groups[nodes.front().group];
  Cluster out = cluster.alone(nodes.front().group);
  NodeGroup& all = out.groups.front();
  all.nodes = 0;
  std::vector<FabricLevel> levels = {cluster.inter.back()};
  for (const GroupPart& part : nodes) {
    const NodeGroup& own = cluster.groups[part.group];
    if (!(own.device == like.device) || own.devices_per_node != like.devices_per_node || !(own.intra == like.intra) ||
        !(own.host == like.host))
      return std::nullopt;
    all.nodes += part.nodes;
    levels.insert(levels.end(), own.inter.begin(), own.inter.end());
  }
  FabricLevel best = levels.front();
  const auto rate = [](const FabricLevel& level) { return level.bandwidth.count() * level.efficiency; };
  for (const FabricLevel& level : levels) {
    if (rate(level) > rate(best)) {
      best.bandwidth = level.bandwidth;
      best.efficiency = level.efficiency;
    }
    best.bandwidth_alone = std::max(best.bandwidth_alone, level.bandwidth_alone);
    best.latency = std::min(best.latency, level.latency);
    best.start = std::min(best.start, level.start);
    best.ramp = std::min(best.ramp, level.ramp);
    best.small_group = std::min(best.small_group, level.small_group);
    best.congestion = std::min(best.congestion, level.congestion);
    best.in_network_reduction = best.in_network_reduction || level.in_network_reduction;
    if (level.direct_bytes != best.direct_bytes || level.per_peer != best.per_peer) return std::nullopt;
  }
  best.span = all.nodes * all.devices_per_node;
  all.segment = all.domain_nodes = 0;
  out.inter = {best};
  return out;
}

AcrossBounds bounds_across(const cost::ClusterCosts& costs, const Plan& plan) {
  Program program;
  cost::Costs priced = cost::price(costs, plan, program);
  const ProgramStructure& structure = program.pipelines.front().structure;
  AcrossBounds out;
  out.full_ns = cost::iteration_lower_bound_ns(priced, structure);
  for (std::size_t i = 0; i < priced.collectives.size(); ++i)
    priced.collectives[CollectiveId(static_cast<std::int32_t>(i))] = Nanoseconds{};
  for (std::int32_t i = 0; i < structure.schedule.stages; ++i) priced.works[structure.optimizer(StageId(i))].time = {};
  out.bare_ns = cost::iteration_lower_bound_ns(priced, structure);
  return out;
}

}  // namespace espalier::search
