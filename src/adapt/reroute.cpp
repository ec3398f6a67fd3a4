// SPDX-License-Identifier: Apache-2.0
// Reroutes a lost device's micro-batches to its peers of the same stage in other replicas.
#include <algorithm>
#include <set>

#include "adapt/actions.h"
#include "adapt/replica_devices.h"
#include "base/format.h"
#include "plan/process_groups.h"

namespace espalier::adapt {
namespace {

constexpr ActionKind kReroute = ActionKind::reroute;

/// Returns the number of replicas that have lost a device of the stage.
std::int64_t broken_replicas(const Situation& s, const Stage& stage) {
  std::set<std::int64_t> broken;
  each_device(stage, s.plan->strategy(), [&](std::int64_t replica, std::int64_t device) {
    const std::int64_t node = s.whole.node_of(s.placed.devices[static_cast<std::size_t>(device)]);
    if (std::binary_search(s.lost.begin(), s.lost.end(), node)) broken.insert(replica);
  });
  return static_cast<std::int64_t>(broken.size());
}

/// Multiplies the slowdown of the devices of a stage.
void slow_down(const Situation& s, const Stage& stage, double factor, ClusterState& state) {
  for (const std::int64_t device : devices_of(stage.devices)) {
    const std::int64_t number = s.placed.devices[static_cast<std::size_t>(device)];
    const auto known =
        std::find_if(state.slow.begin(), state.slow.end(), [&](const Slowdown& slow) { return slow.device == number; });
    if (known == state.slow.end())
      state.slow.push_back({number, factor});
    else
      known->factor *= factor;
  }
}

}  // namespace

Result<Change> reroute(const Situation& s) {
  if (s.lost.empty()) return impossible(kReroute, "no device of the plan is lost");
  if (s.plan->pipelines.size() != 1 || !s.plan->uniform())
    return impossible(kReroute, "the stages of this plan have different strategies");
  const Strategy& strategy = s.plan->strategy();
  if (strategy.dp == 1) return impossible(kReroute, "there is no other replica");
  if (strategy.shards_optimizer())
    return impossible(kReroute, "ZeRO shards states over the replicas: the shards of the lost device are gone");
  if (std::int64_t{strategy.ep} * strategy.etp > std::int64_t{strategy.tp} * strategy.cp)
    return impossible(kReroute, "experts are spread over several replicas");
  // Assume that all devices are present, but those of a hit stage are slower by the work of the lost ones.
  Situation all = s;
  all.state.away.clear();
  double most = 1;
  for (const Pipeline& pipeline : s.plan->pipelines)
    for (const Stage& stage : pipeline.stages) {
      const std::int64_t broken = broken_replicas(s, stage);
      if (broken == strategy.dp) return impossible(kReroute, "a stage is lost in every replica");
      if (broken == 0) continue;
      const double factor = static_cast<double>(strategy.dp) / static_cast<double>(strategy.dp - broken);
      most = std::max(most, factor);
      slow_down(s, stage, factor, all.state);
    }
  const auto present = present_on(all.whole, all.source, all.state, all.used);
  if (!present) return present.error();
  const auto time = step_time(all, *present, on_own_nodes(all));
  if (!time) return time.error();
  const double peak = static_cast<double>(time->peak_bytes) + (most - 1) * static_cast<double>(time->activation_bytes);
  if (peak > static_cast<double>(time->limit_bytes))
    return impossible(kReroute, cat("the peers have no memory for more micro-batches: ",
                                    base::gib(static_cast<std::int64_t>(peak)), " of ", base::gib(time->limit_bytes)));
  Change c;
  c.action = kReroute;
  c.possible = true;
  c.iteration_ns = time->ns;
  c.upper_bound = time->bound;
  c.what = cat("the same stage of the other replicas does ", base::fixed(most, 2), " times its work");
  c.move = restart_alone(s.options.move);
  c.nodes = s.used;
  return c;
}

}  // namespace espalier::adapt
