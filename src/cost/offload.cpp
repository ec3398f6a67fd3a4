// SPDX-License-Identifier: Apache-2.0
#include "cost/offload.h"

#include <algorithm>

#include "base/invariant.h"
#include "cluster/hardware_facts.h"
#include "cost/rounding.h"
#include "plan/engine.h"
#include "plan/expert_shard.h"

namespace espalier::cost {
HostRates host_rates(const NodeGroup& group) {
  HostRates rates;
  if (!group.host.known()) return rates;
  const cluster::HardwareFacts& facts = cluster::hardware_facts();
  rates.link = group.host.link.count() * facts.host_link_share;
  rates.update = group.host.memory_bandwidth.count() * facts.host_update_share / static_cast<double>(group.devices_per_node);
  return rates;
}

HostUpdate host_update(const HostRates& host, const StatePolicy& states, const ParameterElements& e, const Strategy& s) {
  if (!offloads_optimizer(s.offload)) return {};
  ESPALIER_CHECK(host.link > 0 && host.update > 0);  // rule offload-host
  const double elements = own_elements(e, s).trained;
  const double bytes =
      states.gradient + 2.0 * (states.master + states.optimizer) + (states.master > 0 ? 1.0 : 2.0) * states.parameter;
  // The host reads gradients once more for their norm. They came down with every micro-batch, and parameters go up
  // with the next.
  if (offloads_parameters(s.offload)) return {0, (bytes + states.gradient) * elements / host.update, 0};
  return {states.gradient * elements / host.link, bytes * elements / host.update, states.parameter * elements / host.link};
}

namespace {

/// Returns the time of copies in both directions at once, which overlap other work of the given length.
PhaseTime copied(std::int64_t beside, std::int64_t up, std::int64_t down) {
  const std::int64_t longer = std::max(up, down);
  PhaseTime t;
  t.exposed_ns = std::max<std::int64_t>(0, longer - beside);
  t.hidden_ns = longer - t.exposed_ns;
  return t;
}

}  // namespace

HostCopies host_copies(const HostRates& host, const EngineModel& engine, const StatePolicy& states, const LayerCost& l,
                       const ZeroTime& zero, const Strategy& s, RecomputeKind how) {
  HostCopies out;
  if (!copies_in_passes(s.offload)) return out;
  ESPALIER_CHECK(host.link > 0);  // rule offload-host
  const auto link_ns = [&](double bytes) { return round_ns(bytes / host.link); };
  const std::int64_t kept = offloads_activations(s.offload) ? link_ns(static_cast<double>(l.hosted.under(how))) : 0;
  const bool waits = engine.runs.offload_activations == ActivationOffload::checkpoints;
  const std::int64_t saved = waits ? 0 : kept, waited = kept - saved;
  std::int64_t weights = 0, gradients = 0;
  if (offloads_parameters(s.offload)) {
    const OwnElements own = own_elements(l.elements(), s);
    weights = link_ns(states.parameter * own.trained + own.frozen);
    gradients = link_ns(states.gradient * own.trained);
  }
  const std::int64_t forward = l.forward.duration_ns() + zero.forward.duration_ns();
  out.forward = copied(forward, weights, saved);
  out.forward.exposed_ns += waited;
  out.first_up_ns = std::min(forward, weights);
  out.last_down_ns = std::min(forward, saved);
  if (!l.passes_gradient) return out;
  const bool again = how == RecomputeKind::full;
  std::int64_t backward = l.backward.duration_ns() + (again ? zero.backward_again : zero.backward).duration_ns();
  if (how != RecomputeKind::none) backward += (again ? l.recompute_full() : l.recompute_selective).duration_ns();
  out.backward = copied(backward, weights + saved, gradients);
  out.backward.exposed_ns += waited;
  out.last_up_ns = std::min(backward, weights + saved);
  out.first_down_ns = std::min(backward, gradients);
  return out;
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
