// SPDX-License-Identifier: Apache-2.0
// Strategy, groups and local shapes that the operators of one layer kind need, and the price of a collective among
// them. Internal to cost/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cost/collective.h"
#include "cost/layer_cost.h"
#include "cost/layer_sums.h"
#include "plan/engine.h"

namespace espalier::cost {

/// Holds everything that the operator functions need for one layer kind.
struct LayerPricing {
  const CostContext& c;
  const Strategy& s;
  LayerGeometry g;
  Group tp, cp, ep, etp;
  bool ulysses, megatron_sp;
  double a;             // bytes per element
  double split_tokens;  // tokens of split operators
  double sequence_tokens;
  double width;  // divisor of split widths
  bool pipeline_crosses_nodes;
  double length_excess;      // factor by which packed samples of unequal lengths lengthen attention; 1 otherwise
  double other_compute = 0;  // seconds of another micro-batch under which one all-to-all of experts runs; 0: none
};

/// Returns the ranks of a group.
template <GroupKind kind>
const Group& ranks_of(const LayerPricing& x) {
  if constexpr (kind == GroupKind::tensor) return x.tp;
  if constexpr (kind == GroupKind::context) return x.cp;
  if constexpr (kind == GroupKind::expert) return x.ep;
  if constexpr (kind == GroupKind::expert_tensor) return x.etp;
}

/// Returns how traffic of a group of ranks and concurrent compute slow each other down.
inline MutualSlowdown slowed(const LayerPricing& x, const PricedTraffic& moved, const Group& ranks) {
  const double once = moved_bytes(moved.traffic.kind, x.c.fabric.tensor_levels, ranks, moved.traffic.bytes);
  return x.c.device.interference().of(once * moved.traffic.times, moved.seconds);
}

/// Prices `times` messages of `bytes` (plan/steps.h), one after the other, without overlap.
template <CollectiveKind kind, GroupKind group>
PricedTraffic traffic(const LayerPricing& x, double bytes, std::int32_t times = 1) {
  const auto& levels = x.c.fabric.tensor_levels;
  const Group& ranks = ranks_of<group>(x);
  double seconds = 0;
  if constexpr (kind == CollectiveKind::all_reduce) seconds = all_reduce_s(levels, ranks, bytes);
  if constexpr (kind == CollectiveKind::all_gather) seconds = all_gather_s(levels, ranks, bytes);
  if constexpr (kind == CollectiveKind::reduce_scatter) seconds = reduce_scatter_s(levels, ranks, bytes);
  if constexpr (kind == CollectiveKind::all_to_all) seconds = all_to_all_s(levels, ranks, bytes);
  if constexpr (kind == CollectiveKind::ring_shift) seconds = ring_step_s(levels, ranks, bytes);
  return {{kind, group, bytes, times}, times == 1 ? seconds : times * seconds};
}

/// Returns whether ranks of a tensor group wait for each other's hosts: the engine does so, and neighbouring stages
/// are on different nodes.
inline bool waits_for_hosts(const Fabric& fabric, const EngineModel& engine, const Strategy& s, std::int32_t stages) {
  return engine.coefficients.collective_wait_s > 0 && engine.eager.message_host_calls > 0 &&
         pipeline_crosses(fabric.placing(), s, stages, fabric.node_levels);
}

inline double length_excess_of(const Workload& w, const Strategy& s, std::int32_t stages, std::int32_t micro_batch) {
  if (!w.lengths.packed) return 1.0;
  const std::int64_t samples = std::int64_t{micro_batch} * s.dp;
  return length_excess(w.lengths, s.dp, w.training.global_batch / std::max<std::int64_t>(1, samples), micro_batch, stages);
}

[[gnu::always_inline]] inline LayerPricing layer_pricing_of(const CostContext& c, const Strategy& s, std::int32_t stages,
                                                            std::int32_t micro_batch, const LayerKind& kind, bool crosses) {
  const LayerGeometry g = geometry_of(c.workload, *c.engine, kind, s, micro_batch);
  const bool ulysses = s.sp == SequenceParallel::ulysses;
  const double tokens = static_cast<double>(g.tokens);
  const Group tp = tp_group(c.fabric.placing(), s), cp = cp_group(c.fabric.placing(), s),
              ep = ep_group(c.fabric.placing(), s, stages);
  return {c,
          s,
          g,
          tp,
          cp,
          ep,
          run_group(c.fabric.placing(), s.etp),
          ulysses,
          s.sp == SequenceParallel::megatron,
          static_cast<double>(c.workload.element_bytes),
          ulysses ? tokens / s.tp : tokens,
          tokens / g.sequence_split,
          static_cast<double>(s.weight_tp()),
          crosses,
          length_excess_of(c.workload, s, stages, micro_batch)};
}

}  // namespace espalier::cost
