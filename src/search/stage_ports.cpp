// SPDX-License-Identifier: Apache-2.0
#include "search/stage_ports.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cost/collective.h"
#include "plan/engine.h"
#include "search/below_prices.h"

namespace espalier::search {
namespace {

/// Returns the links over which two stages of the given sizes may send to each other: the level that adjacent stages
/// share, and all levels beyond.
std::vector<FabricLevel> links_between(const Problem& problem, const cost::ClusterCosts& costs, std::size_t a, std::int64_t from,
                                       std::size_t b, std::int64_t to) {
  if (a != b) return {costs.link({a, 0, from - 1}, {b, 0, to - 1})};
  const std::vector<FabricLevel>& levels = costs.of(a).fabric.levels;
  const NodeGroup& group = problem.cluster->groups[a];
  const std::int64_t last = std::min(from + to, group.nodes * group.devices_per_node) - 1;
  auto nearest = std::find_if(levels.begin(), levels.end(), [&](const FabricLevel& level) { return last / level.span == 0; });
  if (nearest == levels.end() && !levels.empty()) --nearest;  // a group of one device has no level
  return {nearest, levels.end()};
}

}  // namespace

std::int64_t least_boundary(const Model& model, const std::vector<cost::LayerCost>& layers) {
  std::int64_t least = INT64_MAX;
  for (std::size_t i = 0; i + 1 < model.layers.size(); ++i)
    least = std::min(least, layers[static_cast<std::size_t>(model.layers[i])].boundary_bytes);
  return least == INT64_MAX ? 0 : least;
}

std::int32_t StagePorts::of(std::size_t group, const cost::CostContext& c, const Strategy& s,
                            const std::vector<cost::LayerCost>& layers) {
  const Model& model = *c.workload.model;
  const bool scattered = c.engine->communication.scattered_messages && s.sp == SequenceParallel::none;
  Port port;
  port.group = group;
  port.devices = s.devices();
  const auto held = static_cast<double>(least_boundary(model, layers));
  port.bytes = scattered ? held / s.tp : held;
  if (scattered && s.tp > 1) port.gather = cost::all_gather_s(c.fabric.tensor_levels, tp_group(c.fabric.placing(), s), held);
  port.host = message_host_s(*c.engine, c.device.rates.call);
  const auto known = std::find(ports_.begin(), ports_.end(), port);
  if (known != ports_.end()) return static_cast<std::int32_t>(known - ports_.begin());
  ports_.push_back(port);
  return static_cast<std::int32_t>(ports_.size()) - 1;
}

std::vector<std::vector<std::int64_t>> StagePorts::all_sends(const Problem& problem, const cost::ClusterCosts& costs) const {
  std::map<std::tuple<std::size_t, std::int64_t, std::size_t, std::int64_t>, std::vector<FabricLevel>> known;
  std::vector<std::vector<std::int64_t>> out(ports_.size(), std::vector<std::int64_t>(ports_.size(), 0));
  for (std::size_t i = 0; i < ports_.size(); ++i)
    for (std::size_t j = 0; j < ports_.size(); ++j) {
      const Port &a = ports_[i], &b = ports_[j];
      const auto [at, added] = known.try_emplace({a.group, a.devices, b.group, b.devices});
      if (added) at->second = links_between(problem, costs, a.group, a.devices, b.group, b.devices);
      // Stages of one group may be all of the plan. Then the message is what the sender holds, and the receiver
      // redistributes it in its own pass.
      const bool same = a.group == b.group;
      const double bytes = same ? std::min(a.bytes, b.bytes) : std::max(a.bytes, b.bytes);
      const double gather = same ? std::min(a.gather, b.gather) : b.gather;
      double least = 0;
      for (std::size_t k = 0; k < at->second.size(); ++k) {
        const double seconds = cost::point_to_point_s(at->second, static_cast<int>(k), bytes);
        least = k == 0 ? seconds : std::min(least, seconds);
      }
      out[i][j] = static_cast<std::int64_t>((least + gather + std::max(a.host, b.host)) * 1e9 * kBelow);
    }
  return out;
}

void StagePorts::fill(const Problem& problem, const cost::ClusterCosts& costs, StageOptions& out) const {
  const std::vector<std::vector<std::int64_t>> all = all_sends(problem, costs);
  const auto same = [&](std::size_t i, std::size_t j) {
    if (ports_[i].group != ports_[j].group) return false;
    for (std::size_t x = 0; x < all.size(); ++x)
      if (all[i][x] != all[j][x] || all[x][i] != all[x][j]) return false;
    return true;
  };
  std::vector<std::size_t> kept;
  std::vector<std::int32_t> now(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto like = std::find_if(kept.begin(), kept.end(), [&](std::size_t j) { return same(i, j); });
    now[i] = static_cast<std::int32_t>(like - kept.begin());
    if (like == kept.end()) kept.push_back(i);
  }
  out.send_ns.assign(kept.size(), std::vector<std::int64_t>(kept.size(), 0));
  for (std::size_t i = 0; i < kept.size(); ++i)
    for (std::size_t j = 0; j < kept.size(); ++j) out.send_ns[i][j] = all[kept[i]][kept[j]];
  for (solve::StageOption& option : out.options) option.port = now[static_cast<std::size_t>(option.port)];
}

}  // namespace espalier::search
