// SPDX-License-Identifier: Apache-2.0
#include "cost/offload.h"

#include <algorithm>

#include "base/check.h"
#include "cost/rounding.h"
#include "plan/expert_shard.h"

namespace espalier::cost {
namespace {

constexpr double kLinkShare = 0.8, kUpdateShare = 0.46;

}  // namespace

HostRates host_rates(const NodeGroup& group) {
  HostRates rates;
  if (!group.host.known()) return rates;
  rates.link = group.host.link.count() * kLinkShare;
  rates.update = group.host.memory_bandwidth.count() * kUpdateShare / static_cast<double>(group.devices_per_node);
  return rates;
}

HostUpdate host_update(const HostRates& host, const StatePolicy& states, const ParameterElements& e, const Strategy& s) {
  if (s.offload == Offload::none) return {};
  ESPALIER_CHECK(host.link > 0 && host.update > 0);  // rule offload-host
  const double shard = shards_optimizer(s.zero) ? static_cast<double>(s.shard) : 1.0;
  const auto expert_shard = static_cast<double>(expert_shard_of(s));
  const double elements = static_cast<double>(e.dense) / shard + static_cast<double>(e.expert) / expert_shard;
  const double bytes =
      states.gradient + 2.0 * (states.master + states.optimizer) + (states.master > 0 ? 1.0 : 2.0) * states.parameter;
  return {states.gradient * elements / host.link, bytes * elements / host.update, states.parameter * elements / host.link};
}

void add_host_update(const HostUpdate& host, const EngineModel& engine, std::int64_t backward_ns, PhaseTime& step_end,
                     Nanoseconds& step_host) {
  const bool overlaps = engine.communication.overlaps_offload;
  const std::int64_t down = round_ns(host.down), update = round_ns(host.update), up = round_ns(host.up);
  const std::int64_t waited =
      overlaps ? std::max<std::int64_t>(0, down - backward_ns) + std::max<std::int64_t>(0, up - update) : down + up;
  step_end.exposed_ns += waited;
  step_end.hidden_ns += down + up - waited;
  step_end.compute_ns += update;
  step_host = Nanoseconds(step_host.count() + update);
}

std::int64_t least_host_ns(const HostUpdate& host, const EngineModel& engine) {
  const std::int64_t down = round_ns(host.down), update = round_ns(host.update), up = round_ns(host.up);
  return engine.communication.overlaps_offload ? std::max(update, up) : down + update + up;
}

HostNeed host_need(const Cluster& cluster, const Costs& costs) {
  std::int64_t most = 0;
  for (const StageCost& stage : costs.stages) most = std::max(most, stage.memory.host);
  HostNeed tightest;
  for (const NodeGroup& group : cluster.groups) {
    const HostNeed own{most * group.devices_per_node, group.host.memory.count()};
    const bool first = &group == &cluster.groups.front();
    if (first || own.memory - own.bytes < tightest.memory - tightest.bytes) tightest = own;
  }
  return tightest;
}

}  // namespace espalier::cost
