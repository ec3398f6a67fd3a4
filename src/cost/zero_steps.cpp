// SPDX-License-Identifier: Apache-2.0
#include "cost/zero_steps.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "cost/collective.h"
#include "cost/rounding.h"
#include "plan/engine.h"

namespace espalier::cost {
namespace {

PricedTraffic gather(const Fabric& fabric, const Group& ranks, GroupKind group, double bytes) {
  return {{CollectiveKind::all_gather, group, bytes, 1}, all_gather_s(fabric.data_levels, ranks, bytes)};
}
PricedTraffic scatter(const Fabric& fabric, const Group& ranks, GroupKind group, double bytes) {
  return {{CollectiveKind::reduce_scatter, group, bytes, 1}, reduce_scatter_s(fabric.data_levels, ranks, bytes)};
}

SerialCollectives in_series(const PricedTraffic& dense, const PricedTraffic& expert, const DataGroups& g) {
  const auto passed = [](const PricedTraffic& moved, const Group& ranks) {
    return ranks.size <= 1 ? 0.0 : moved.traffic.bytes * static_cast<double>(ranks.size - 1) / static_cast<double>(ranks.size);
  };
  return {dense.seconds + expert.seconds, passed(dense, g.shard) + passed(expert, g.expert_shard)};
}

/// Returns the traffic of a share of the layers, on average.
PricedTraffic part_of(PricedTraffic moved, double share) {
  moved.traffic.bytes *= share;
  moved.seconds *= share;
  return moved;
}

/// Returns the seconds by which collectives next to `compute` make it longer; `exposed_share` of what could be hidden
/// is not.
double exposed_s(const SerialCollectives& collectives, double compute, const Interference& device, double exposed_share) {
  const double communication = collectives.seconds;
  const double least = pair_time(communication, compute, device.of(collectives.moved, communication)) - compute;
  return least + exposed_share * std::max(0.0, communication - least);
}

/// Adds the time of `own` to a phase of `compute` that hides `before` already.
void hide_into(PhaseTime& phase, const SerialCollectives& own, const SerialCollectives& before, double compute,
               const Interference& device, double exposed_share) {
  SerialCollectives both = before;
  both += own;
  const double first = before.seconds > 0 ? exposed_s(before, compute, device, exposed_share) : 0.0;
  const double all = exposed_s(both, compute, device, exposed_share);
  // The two add up to what they take together.
  phase.exposed_ns += std::max<std::int64_t>(0, round_ns(all) - round_ns(first));
  phase.hidden_ns += round_ns(std::max(0.0, own.seconds - std::max(0.0, all - first)));
}

/// Adds copies in and out of the buffers of the collectives.
void add_copies(const DeviceCost& device, const EngineKernels& kernels, const Strategy& s, const StatePolicy& states,
                const ParameterElements& e, double again, ZeroTime& z) {
  const auto elements = static_cast<double>(e.dense + e.expert);
  const double frozen = static_cast<double>(e.frozen_dense + e.frozen_expert) / std::max(1, states.gather);
  const double copied_s = s.shards_parameters() ? (elements + frozen) * kernels.gather_copy_bytes / device.rates.memory : 0.0;
  const std::int64_t gathered = round_ns(copied_s), regathered = round_ns(again * copied_s);
  const std::int64_t reduced =
      s.shards_gradients() ? round_ns(elements * kernels.reduce_copy_bytes * (states.reduce > 0) / device.rates.memory) : 0;
  z.forward.compute_ns += gathered;
  z.backward.compute_ns += regathered + reduced;
  z.backward_again.compute_ns += regathered + reduced;
}

/// Lowers times to a bound, because what is rounded in one bucket here may be rounded down in two buckets there.
void lower_by_rounding(ZeroTime& z) {
  for (PhaseTime* phase : {&z.forward, &z.backward, &z.backward_again})
    phase->exposed_ns = std::max<std::int64_t>(0, phase->exposed_ns - 2);
}

void add_steps(const PricedTraffic& moved, StepPart part, bool overlapped, Placement alone, std::vector<ZeroSteps::Timed>& out) {
  if (moved.seconds <= 0) return;
  ESPALIER_CHECK(moved.traffic.bytes > 0 && moved.traffic.times > 0);
  ZeroSteps::Timed timed;
  timed.step.part = part;
  timed.step.traffic = moved.traffic;
  timed.step.placement = overlapped ? Placement::beside : alone;
  timed.seconds = moved.seconds;
  out.push_back(timed);
}

}  // namespace

ZeroTraffic zero_traffic(const Fabric& fabric, const DataGroups& g, const Strategy& s, const StatePolicy& states,
                         const ParameterElements& elements) {
  ZeroTraffic out;
  if (!s.shards_gradients()) return out;
  const auto dense = static_cast<double>(elements.dense), expert = static_cast<double>(elements.expert);
  const double gathered = dense * states.gather + static_cast<double>(elements.frozen_dense);
  const double gathered_experts = expert * states.gather + static_cast<double>(elements.frozen_expert);
  if (s.shards_parameters() && gathered > 0) out.gathers[0] = gather(fabric, g.shard, GroupKind::data_shard, gathered);
  if (s.shards_parameters() && gathered_experts > 0)
    out.gathers[1] = gather(fabric, g.expert_shard, GroupKind::expert_shard, gathered_experts);
  if (g.gathers_again > 0)
    for (std::size_t i = 0; i < out.gathers.size(); ++i) out.regathers[i] = part_of(out.gathers[i], g.gathers_again);
  if (dense > 0) out.reductions[0] = scatter(fabric, g.shard, GroupKind::data_shard, dense * states.reduce);
  if (expert <= 0) return out;
  out.reductions[1] = scatter(fabric, g.expert_shard, GroupKind::expert_shard, expert * states.reduce);
  return out;
}

HiddenTraffic hidden_traffic(const Fabric& fabric, const DataGroups& g, const Strategy& s, const StatePolicy& states,
                             const ParameterElements& elements) {
  HiddenTraffic out;
  const ZeroTraffic traffic = zero_traffic(fabric, g, s, states, elements);
  if (s.overlap.param_gather) {
    out.gathers = in_series(traffic.gathers[0], traffic.gathers[1], g);
    out.regathers = in_series(traffic.regathers[0], traffic.regathers[1], g);
  }
  if (s.overlap.grad_reduce) out.reductions = in_series(traffic.reductions[0], traffic.reductions[1], g);
  return out;
}

ZeroTime zero_time(const CostContext& c, const DataGroups& g, const Strategy& s, const StatePolicy& states, const LayerCost& l,
                   ChunkEdges edges, const HiddenTraffic& before) {
  ZeroTime z;
  if (!s.shards_gradients()) return z;
  const ZeroTraffic traffic = zero_traffic(c.fabric, g, s, states, l.elements());
  const SerialCollectives gathers = in_series(traffic.gathers[0], traffic.gathers[1], g),
                          regathers = in_series(traffic.regathers[0], traffic.regathers[1], g),
                          reductions = in_series(traffic.reductions[0], traffic.reductions[1], g);
  ESPALIER_CHECK(gathers.seconds >= 0 && reductions.seconds >= 0);
  const Interference device = c.device.interference();
  const double forward = static_cast<double>(l.forward.duration_ns()) * 1e-9,
               backward = static_cast<double>(l.backward.duration_ns()) * 1e-9;
  const double share = c.engine->coefficients.exposed_share;
  if (s.overlap.param_gather) {
    hide_into(z.forward, gathers, before.gathers, forward, device, share);
  } else {
    z.forward.exposed_ns += round_ns(gathers.seconds);
    z.backward.exposed_ns += round_ns(regathers.seconds);
  }
  SerialCollectives own = s.overlap.param_gather ? regathers : SerialCollectives{};
  if (s.overlap.grad_reduce)
    own += reductions;
  else
    z.backward.exposed_ns += round_ns(reductions.seconds);
  SerialCollectives first = before.regathers;
  first += before.reductions;
  z.backward_again = z.backward;
  hide_into(z.backward, own, first, backward, device, share);
  if (s.recompute.kind == RecomputeKind::full) hide_into(z.backward_again, own, first, forward + backward, device, share);
  // Recomputation never makes a step shorter, not even by a rounding.
  z.backward_again.exposed_ns = std::max(z.backward_again.exposed_ns, z.backward.exposed_ns - l.forward.duration_ns());
  add_copies(c.device, c.engine->kernels, s, states, l.elements(), g.gathers_again, z);
  if (!l.passes_gradient) z.backward = z.backward_again = PhaseTime{};
  if (edges == ChunkEdges::free) {
    lower_by_rounding(z);
    return z;
  }
  z.gather_ns = s.overlap.param_gather ? round_ns(gathers.seconds) : 0;
  z.reduce_ns = s.overlap.grad_reduce && l.passes_gradient ? round_ns(reductions.seconds) : 0;
  return z;
}

ZeroSteps zero_steps(const Strategy& s, const ZeroTraffic& traffic) {
  ZeroSteps out;
  for (const PricedTraffic& moved : traffic.gathers)
    add_steps(moved, StepPart::forward, s.overlap.param_gather, Placement::before, out.forward);
  for (const PricedTraffic& moved : traffic.regathers)
    add_steps(moved, StepPart::input_gradient, s.overlap.param_gather, Placement::before, out.backward);
  for (const PricedTraffic& moved : traffic.reductions)
    add_steps(moved, StepPart::weight_gradient, s.overlap.grad_reduce, Placement::after, out.backward);
  return out;
}

}  // namespace espalier::cost
