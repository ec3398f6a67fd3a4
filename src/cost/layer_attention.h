// SPDX-License-Identifier: Apache-2.0
// Attention of a layer under tensor and context parallelism: its kernels, and the exchange or the ring around them.
// Equations: layer_cost.h, operator_cost.h. Internal to cost/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cost/layer_pricing.h"

namespace espalier::cost {

/// Adds four all-to-alls of a quarter of `bytes` each, forward and backward: q, k and v in, and the output back.
template <GroupKind group, class Sum>
void exchange_heads(Sum& sum, const LayerPricing& x, double bytes) {
  const auto moved = traffic<CollectiveKind::all_to_all, group>(x, bytes / 4, 4);
  sum.move(SumPhase::forward, alone(moved, Placement::before, StepPart::forward, sum.op));
  sum.move_back(alone(moved, Placement::before, StepPart::input_gradient, sum.op));
  sum.kernels(4, 4);
}

/// Adds the ring that shifts K and V (`bytes` of both) while attention runs on the keys that have arrived.
template <class Sum>
[[gnu::always_inline]] inline void shift_keys(Sum& sum, const LayerPricing& x, double bytes, double forward, double backward) {
  const double steps = x.s.cp - 1, under = steps / x.s.cp;
  const auto there = traffic<CollectiveKind::ring_shift, GroupKind::context>(x, bytes, x.s.cp - 1);
  const auto back = traffic<CollectiveKind::ring_shift, GroupKind::context>(x, 2 * bytes, x.s.cp - 1);
  sum.move(SumPhase::forward, beside(there, forward * under, slowed(x, there, x.cp), StepPart::forward, sum.op, sum.op));
  sum.move_back(beside(back, backward * under, slowed(x, back, x.cp), StepPart::input_gradient, sum.op, sum.op));
  const int launches = x.c.engine->facts.collective_launches * static_cast<int>(steps);
  sum.kernels(launches, 2 * launches);
}

template <class Sum>
[[gnu::always_inline]] inline void add_attention(Sum& sum, const LayerPricing& x, const Operator& op) {
  const auto& d = x.c.device.rates;
  const double tokens = static_cast<double>(x.g.tokens),
               kv_tokens = static_cast<double>(op.cross ? x.g.cross_tokens : x.g.tokens);
  const double all_keys = static_cast<double>(op.cross ? x.g.cross_keys : keys_in_reach(op, x.g.keys));
  const double heads = static_cast<double>(op.heads) / x.s.tp,
               kv_heads = std::max(1.0, static_cast<double>(op.kv_heads) / x.s.tp);
  const double qk = op.qk_dim, v = op.v_dim;
  const bool fused = x.c.engine->memory.activations == ActivationPolicy::fused_attention;
  double forward, backward;
  if (fused) {
    const bool packed = x.c.workload.lengths.packed && !op.cross;
    const double keys =
        packed ? x.length_excess * x.c.workload.packed_keys(op) : mean_keys(all_keys, static_cast<double>(op.window), op.causal);
    const double longest = packed ? x.c.workload.lengths.longest : all_keys;
    const double most_keys = op.window > 0 ? std::min(static_cast<double>(op.window), longest) : longest;
    const double bytes = x.a * (tokens * heads * (qk + v) + kv_tokens * kv_heads * (qk + v));
    // A ring runs one kernel per step on 1/cp of the keys, and merges the partial results in fp32 after each.
    const double steps = x.s.cp_kind == ContextParallelKind::ring ? x.s.cp : 1;
    const double merge = steps > 1 ? (steps - 1) * memory_bound_s(d, 12 * tokens * heads * v) : 0;
    const AttentionCall shape{tokens * heads, keys / steps, most_keys / steps, qk + v, bytes / steps};
    forward = steps * attention_forward_s(d, shape) + merge;
    backward = steps * attention_backward_s(d, shape) + merge;
    sum.compute(forward, backward, static_cast<int>(2 * steps - 1), static_cast<int>(4 * steps - 1));
  } else {
    const double keys = op.window > 0 ? std::min(static_cast<double>(op.window), all_keys) : all_keys;
    const double scores = heads * tokens * keys, batch = heads * tokens / std::max(1.0, keys);
    // Matrix units are fed by loads of 16 bytes, which need rows of whole vectors (NVIDIA, Matrix Multiplication
    // Background, "Tensor Core requirements"). Other head sizes run without matrix units.
    const bool vectors = op.qk_dim % 8 == 0 && op.v_dim % 8 == 0;
    const double rate = vectors ? d.batched : d.batched * d.uneven;
    const double qk_s = batched_gemm_s(d, rate, batch, keys, keys, qk, x.a),
                 av_s = batched_gemm_s(d, rate, batch, keys, v, keys, x.a);
    // A fused causal softmax does not read the masked half, but writes all of it (Megatron-LM's
    // scaled_upper_triang_masked_softmax).
    const double read = op.causal ? 0.5 : 1.0;
    const double soft = memory_bound_s(d, (read + 1) * x.a * scores),
                 soft_back = memory_bound_s(d, (2 * read + 1) * x.a * scores);
    const double drop = op.score_dropout ? memory_bound_s(d, (2 * x.a + 1) * scores) : 0;
    forward = qk_s + av_s + soft + drop;
    backward = 2 * (qk_s + av_s) + soft_back + drop;
    // Forward has two GEMMs, softmax, dropout and a copy of the output; backward four GEMMs, dropout, softmax and
    // three copies.
    sum.compute(forward, backward, op.score_dropout ? 5 : 4, op.score_dropout ? 9 : 8);
  }
  // One rank holds these bytes of q, k, v and the output.
  const double held = x.a * (tokens * heads * (qk + v) + kv_tokens * kv_heads * (qk + v));
  if (x.ulysses && x.s.tp > 1) exchange_heads<GroupKind::tensor>(sum, x, held);
  if (x.s.cp > 1 && x.s.cp_kind == ContextParallelKind::all_to_all) exchange_heads<GroupKind::context>(sum, x, held);
  if (x.s.cp > 1 && x.s.cp_kind == ContextParallelKind::ring)
    shift_keys(sum, x, x.a * kv_tokens * kv_heads * (qk + v), forward, backward);
}

}  // namespace espalier::cost
