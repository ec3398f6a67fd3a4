// SPDX-License-Identifier: Apache-2.0
// Compute and traffic of each operator of a layer under a strategy; the equations are in layer_cost.h. Every function
// adds to `sum` (layer_sums.h). For each collective it gives the kind, group and bytes, and the compute that overlaps
// it. Functions with one call site in the search's innermost loop are force-inlined. As templates they are shared
// symbols, which the compiler would call instead (6 % more instructions per layer). Internal to cost/.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "cost/layer_attention.h"
#include "cost/layer_scan.h"
#include "cost/tensor_region.h"
#include "plan/key_value.h"
#include "plan/recompute_modules.h"
#include "plan/transformer_engine.h"
#include "profile/measured_operators.h"

namespace espalier::cost {

/// Accumulates the gradients of `parameters` weights on this rank. Gradients that the GEMM does not accumulate are
/// read again and added in one pass.
template <class Sum>
void accumulate(Sum& sum, const LayerPricing& x, double parameters) {
  if (x.c.engine->eager.fused_gradient_accumulation) return;
  sum.weight(
      memory_bound_s(x.c.device.rates, parameters * (x.c.workload.element_bytes + 2.0 * x.c.engine->memory.states.gradient)));
}
inline double accumulated_bytes(const LayerPricing& x) {
  return x.c.engine->eager.fused_gradient_accumulation ? 2.0 * x.c.engine->memory.states.gradient : 0.0;
}

/// Adds the low-rank adapters of a frozen linear of m tokens, n output and k input features on this rank. Each pair
/// reads the input and adds to its part of the output. Backward, the gradients of both matrices read input and output
/// gradient again. Their products are narrow: their time is a norm of compute and memory time. The tensor group sums
/// or gathers the `rank` features in between, both ways.
template <class Sum>
void add_adapters(Sum& sum, const LayerPricing& x, const Operator& op, double m, double n, double k) {
  const DeviceRates& d = x.c.device.rates;
  const double rank = op.adapter_rank, pairs = op.adapters;
  const double out = static_cast<double>(op.adapter_out) * n / static_cast<double>(op.out);
  const auto product = [&](double flops, double bytes) { return std::hypot(flops / d.gemm_wide, bytes / d.memory); };
  const double down = pairs * d.floor + product(2 * m * rank * k * pairs, x.a * m * k * pairs);
  const double up = pairs * d.floor + product(2 * m * rank * out, 2 * x.a * m * out);
  const int each = 2 * op.adapters;
  sum.compute(down + up, down + up, each, each);
  sum.weight(down + up);
  sum.kernels_of_weights(each);
  if (x.s.weight_tp() == 1 || op.split == TpSplit::none) return;
  const auto reduce = traffic<CollectiveKind::all_reduce, GroupKind::tensor>(x, x.a * x.split_tokens * rank * pairs);
  sum.move(SumPhase::forward, alone(reduce, Placement::after, StepPart::forward, sum.op));
  sum.move_back(alone(reduce, Placement::after, StepPart::input_gradient, sum.op));
  const int launches = x.c.engine->facts.collective_launches;
  sum.kernels(launches, launches);
  sum.wait(x.tp.size, 1, 1);
}

/// Adds the kernels that write out weights of fewer bits than compute takes. They run before each product that reads
/// the weights, in either pass.
template <class Sum>
void add_dequantisation(Sum& sum, const LayerPricing& x, const LayerKind& kind, const Operator& op, double elements) {
  const Training& training = x.c.workload.training;
  if (!op.frozen || training.adapter.base == FrozenType::compute) return;
  const double held = frozen_bytes(states_of(*x.c.engine, training), training, kind, op);
  if (held >= x.a) return;
  const double pass = memory_bound_s(x.c.device.rates, (held + x.a) * elements);
  sum.compute(pass, pass, 1, 1);
}

/// Adds the casts of 8-bit and 4-bit matrix products (cluster/operand_format.h). The cast of the input begins inside
/// the normalisation or activation before it (TransformerEngine LayerNormLinear), which reads it.
template <class Sum>
void add_casts(Sum& sum, const LayerPricing& x, double m, double n, double k) {
  const cluster::OperandFormat& operand = x.c.workload.operand;
  const int passes = operand.passes;
  sum.compute(memory_bound_s(x.c.device.rates, operand.fused_cast_bytes() * m * k),
              memory_bound_s(x.c.device.rates, operand.cast_bytes() * m * n), passes, passes);
}

/// Adds the casts of `local` experts, whose input comes from the permutation and is read for its cast. Cast one by one,
/// they take at least the time in which the host launches them. The host has waited for the counts of the routing, so
/// nothing is queued.
template <class Sum>
void add_expert_casts(Sum& sum, const LayerPricing& x, double local, double m, double n, double k) {
  const EngineModel& engine = *x.c.engine;
  const bool one_by_one = of_transformer_engine(engine) && engine.measured == nullptr;
  const double host = one_by_one ? local * eager_share(engine) * x.c.device.rates.launch : 0.0;
  const cluster::OperandFormat& operand = x.c.workload.operand;
  const double each = operand.cast_bytes();
  sum.compute(std::max(host, memory_bound_s(x.c.device.rates, each * m * k)),
              std::max(host, memory_bound_s(x.c.device.rates, each * m * n)), operand.passes, operand.passes);
}

template <class Sum>
[[gnu::always_inline]] inline void add_linear(Sum& sum, const LayerPricing& x, const LayerKind& kind, const Operator& op,
                                              Region& region) {
  const auto& d = x.c.device.rates;
  double m = x.split_tokens, n = static_cast<double>(op.out), k = static_cast<double>(op.in);
  if (op.cross) m *= static_cast<double>(x.g.cross_tokens) / static_cast<double>(std::max<std::int64_t>(1, x.g.tokens));
  if (op.split == TpSplit::none) m = x.sequence_tokens;
  if (op.split == TpSplit::vocab && x.g.padded_vocabulary > 0) n = static_cast<double>(x.g.padded_vocabulary);
  if (op.split == TpSplit::column)
    n = outputs_on_rank(kind, op, x.s.weight_tp());
  else if (op.split == TpSplit::vocab || op.split == TpSplit::heads)
    n /= x.width;
  if (op.split == TpSplit::row) k /= x.width;
  // The output projection stays in 16 bits.
  const bool eight_bit = x.c.workload.operand_bytes < x.a && op.split != TpSplit::vocab;
  const double a = eight_bit ? x.c.workload.operand_bytes : x.a, rate = eight_bit ? d.gemm : d.gemm_wide;
  const double forward = gemm_s(d, rate, m, n, k, a), input = gemm_s(d, rate, m, k, n, a);
  const double weight = op.frozen ? 0.0 : gemm_s(d, rate, n, k, m, a, accumulated_bytes(x) * n * k);
  sum.compute(forward, input, 1, 1);
  // A linear has two kernels: its GEMM and the addition to the accumulated gradient. A bias adds two: its reduction
  // and its addition.
  if (!op.frozen) {
    sum.weight(weight);
    sum.kernels_of_weights(op.parameters > op.in * op.out ? 4 : 2);
    accumulate(sum, x, n * k);
  }
  if (op.adapters > 0) add_adapters(sum, x, op, m, n, k);
  add_dequantisation(sum, x, kind, op, n * k);
  if (eight_bit) add_casts(sum, x, m, n, k);
  if (op.split == TpSplit::column || op.split == TpSplit::vocab) {
    region.column_forward += forward;
    region.column_input += input;
    region.column_weight += weight;
    if (region.first_column < 0) region.first_column = sum.op;
    region.last_column = sum.op;
  }
  const double boundary = x.a * x.split_tokens;
  if (op.split == TpSplit::row) {
    close_region(sum, x, region, forward, input, boundary * static_cast<double>(op.out));
    region = Region{};
  } else if (op.split == TpSplit::vocab && x.s.tp > 1 && !x.ulysses) {
    // The output projection gathers its input under SP and reduces the input gradient; its output stays split for the
    // loss.
    const double bytes = boundary * static_cast<double>(op.in);
    if (x.megatron_sp) {
      const auto gather = traffic<CollectiveKind::all_gather, GroupKind::tensor>(x, bytes);
      const auto scatter = traffic<CollectiveKind::reduce_scatter, GroupKind::tensor>(x, bytes);
      sum.move(SumPhase::forward, alone(gather, Placement::before, StepPart::forward, sum.op));
      sum.move_back(alone(scatter, Placement::after, StepPart::input_gradient, sum.op));
      // Only a part of the input is kept, so it is gathered again for the weights.
      if (x.c.engine->communication.blocking_tensor) {
        sum.move(SumPhase::backward, alone(gather, Placement::before, StepPart::weight_gradient, sum.op));
        sum.move(SumPhase::weight, alone(gather, Placement::before, StepPart::weight_gradient, sum.op));
      }
      sum.kernels(1, 1);
      sum.wait(x.tp.size, 1, 1);
    } else {
      const auto reduce = traffic<CollectiveKind::all_reduce, GroupKind::tensor>(x, bytes);
      sum.move_back(alone(reduce, Placement::after, StepPart::input_gradient, sum.op));
      sum.kernels(0, 1);
      sum.wait(x.tp.size, 0, 1);
    }
  }
}

inline constexpr double kExchanges = 4;  // exchanges of a layer and micro-batch: to the experts and back, both passes

/// Return the token copies of the fullest rank, and those that its experts see once expert tensor parallelism has
/// gathered them.
inline double routed(const LayerPricing& x, const Operator& op) { return x.sequence_tokens * op.top_k * x.g.imbalance; }
inline double gathered(const LayerPricing& x, const Operator& op) {
  return routed(x, op) * (x.g.sequence_split > 1 ? x.s.etp : 1);
}

/// Returns the ranks of the expert group in one node, or in one NVLink domain of several nodes.
inline std::int64_t joined_by_nvlink(const LayerPricing& x) {
  std::int64_t inside = x.ep.members[0];
  for (std::size_t k = 1; k < x.c.fabric.levels.size() && x.c.fabric.levels[k].kind == FabricKind::nvl72; ++k)
    inside = x.ep.members[k];
  return inside;
}

/// Returns the share of the token copies that a deduplicating dispatcher sends. It sends one copy to each distinct
/// place among P nodes (or ranks of one node). On random experts top_k copies reach P·(1 − (1 − 1/P)^top_k) of them.
inline double dispatched_share(const LayerPricing& x, const Operator& op) {
  if (!x.c.engine->communication.deduplicates_dispatch || x.ep.size <= 1 || op.top_k <= 1) return 1.0;
  const double inside = static_cast<double>(std::max<std::int64_t>(1, joined_by_nvlink(x)));
  const double places = static_cast<double>(x.ep.size) > inside ? static_cast<double>(x.ep.size) / inside : inside;
  return places * (1.0 - std::pow(1.0 - 1.0 / places, op.top_k)) / op.top_k;
}

template <class Sum>
void add_exchange(Sum& sum, const LayerPricing& x, const Operator& op) {
  const double bytes = x.a * routed(x, op) * static_cast<double>(op.in);
  const double permute = memory_bound_s(x.c.device.rates, 2 * bytes);
  sum.compute(permute, permute, 6, 5);  // counts to the host, indices, gather, probabilities
  const bool dispatch = op.kind == OperatorKind::dispatch;
  // The exchange lies between the permutation and the experts, on either side of them.
  const Placement there = dispatch ? Placement::after : Placement::before, back = dispatch ? Placement::before : Placement::after;
  const auto forward = [&](const PricedTraffic& moved) { return alone(moved, there, StepPart::forward, sum.op); };
  const auto backward = [&](const PricedTraffic& moved) { return alone(moved, back, StepPart::input_gradient, sum.op); };
  // Overlaps the exchange with the compute of another micro-batch, which is as long as this one's.
  const auto sent = [&](const PricedTraffic& moved, Placement where, StepPart part) {
    return x.other_compute > 0 ? beside(moved, x.other_compute, slowed(x, moved, x.ep), part, sum.op, sum.op)
                               : alone(moved, where, part, sum.op);
  };
  const auto exchange = traffic<CollectiveKind::all_to_all, GroupKind::expert>(x, bytes * dispatched_share(x, op));
  if (x.s.etp > 1 && x.g.sequence_split > 1) {  // gather before the experts, scatter after; the same backwards
    const auto gather = traffic<CollectiveKind::all_gather, GroupKind::expert_tensor>(x, bytes * x.s.etp);
    const auto scatter = traffic<CollectiveKind::reduce_scatter, GroupKind::expert_tensor>(x, bytes * x.s.etp);
    sum.move(SumPhase::forward, sent(exchange, there, StepPart::forward), forward(dispatch ? gather : scatter));
    sum.move_back(sent(exchange, back, StepPart::input_gradient), backward(dispatch ? scatter : gather));
  } else if (x.s.etp > 1) {  // all ranks hold the tokens: reduce partial sums after the experts, gradients before
    const auto reduce = traffic<CollectiveKind::all_reduce, GroupKind::expert_tensor>(x, bytes);
    const PricedTraffic none;
    sum.move(SumPhase::forward, sent(exchange, there, StepPart::forward), forward(dispatch ? none : reduce));
    sum.move_back(sent(exchange, back, StepPart::input_gradient), backward(dispatch ? reduce : none));
  } else {
    sum.move(SumPhase::forward, sent(exchange, there, StepPart::forward));
    sum.move_back(sent(exchange, back, StepPart::input_gradient));
  }
  const int collectives = x.c.engine->facts.collective_launches * (1 + (x.s.etp > 1));
  sum.kernels(collectives, collectives);
}

template <class Sum>
void add_expert_linear(Sum& sum, const LayerPricing& x, const LayerKind& kind, const Operator& op) {
  const double local = static_cast<double>(op.experts) / x.s.ep;
  const double m = gathered(x, op) / local;
  double n = static_cast<double>(op.out), k = static_cast<double>(op.in);
  (op.split == TpSplit::row ? k : n) /= x.s.etp;
  const DeviceRates& d = x.c.device.rates;
  const double forward = batched_gemm_s(d, d.grouped, local, m, n, k, x.a);
  sum.compute(forward, forward, 1, 1);
  if (x.c.workload.operand_bytes < x.a && !x.c.engine->kernels.fused_experts) add_expert_casts(sum, x, local, m * local, n, k);
  add_dequantisation(sum, x, kind, op, local * n * k);
  if (op.frozen) return;
  sum.weight(batched_gemm_s(d, d.grouped, local, m, n, k, x.a, local * accumulated_bytes(x) * n * k));
  sum.kernels_of_weights(1);
  accumulate(sum, x, local * n * k);
}

/// Adds memory-bound operators: bytes read and written per token and feature, forward and backward.
template <class Sum>
void add_elementwise(Sum& sum, const LayerPricing& x, const Operator& op, double tokens, double width) {
  DeviceRates d = x.c.device.rates;
  d.memory /= x.c.engine->coefficients.elementwise * x.c.engine->kernels.elementwise_traffic;
  const double in = static_cast<double>(op.in) / width, out = static_cast<double>(op.out) / width;
  const bool eager = x.c.engine->memory.activations == ActivationPolicy::megatron_2022_unfused;
  double forward = 0, backward = 0;
  switch (op.kind) {
    // Backward reads the input and the gradient, and writes; without a fused kernel it reads both again for scale and
    // shift.
    case OperatorKind::norm:
      forward = 2 * x.a * in;
      backward = (eager ? 5 : 3) * x.a * in;
      break;
    case OperatorKind::activation:
    case OperatorKind::expert_activation:
      forward = x.a * (in + out);
      backward = x.a * (2 * in + out);
      break;
    case OperatorKind::residual: forward = backward = 3 * x.a * in; break;  // the gradients of both branches are added
    case OperatorKind::causal_conv:                                         // few taps: bound by memory
      forward = 2 * x.a * in;
      backward = 3 * x.a * in;
      break;
    case OperatorKind::dropout:  // forward writes only the mask, in the residual's kernel; backward is its own kernel
      forward = in;
      backward = (2 * x.a + 1) * in;
      break;
    default: forward = backward = 2 * x.a * in; break;
  }
  // A norm reduces the gradients of its weight (and bias) and adds each to the accumulated one; so does a
  // convolution.
  if (op.kind == OperatorKind::norm && !op.frozen) sum.kernels_of_weights(op.parameters > op.in ? 3 : 2);
  if (op.kind == OperatorKind::causal_conv && !op.frozen) sum.kernels_of_weights(2);
  const bool fused_away = op.kind == OperatorKind::dropout;
  const double f = fused_away ? tokens * forward / d.memory : memory_bound_s(d, tokens * forward);
  sum.compute(f, memory_bound_s(d, tokens * backward), fused_away ? 0 : 1, 1);
}

template <class Sum>
void add_embedding(Sum& sum, const LayerPricing& x, const Operator& op) {
  const auto& d = x.c.device.rates;
  const double bytes = x.a * x.split_tokens * static_cast<double>(op.out);
  sum.compute(memory_bound_s(d, 2 * bytes), 0, 4, 0);  // lookup, positions, sum, dropout
  // The gradient is a dense table. In every engine the table is cleared, the rows of the tokens are added (sorted,
  // read and written), and all of it is added to the accumulated gradient. Aceso's and Mist's operator times give 8
  // bytes per element of an fp16 table, and 25 per token and feature.
  if (!op.frozen) {
    const double rows = x.g.padded_vocabulary > 0 && op.split == TpSplit::vocab
                            ? static_cast<double>(x.g.padded_vocabulary) / x.width
                            : static_cast<double>(op.parameters) / std::max(1.0, static_cast<double>(op.out));
    const double table = rows * static_cast<double>(op.out) * (2 * x.a + 2.0 * x.c.engine->memory.states.gradient);
    sum.weight(memory_bound_s(d, table + 12.5 * bytes));
    sum.kernels_of_weights(4);  // sort, segments, sum, addition
  }
  if (op.split != TpSplit::vocab || x.s.tp == 1 || x.ulysses) return;
  if (x.megatron_sp) {
    const auto scatter = traffic<CollectiveKind::reduce_scatter, GroupKind::tensor>(x, bytes);
    const auto gather = traffic<CollectiveKind::all_gather, GroupKind::tensor>(x, bytes);
    sum.move(SumPhase::forward, alone(scatter, Placement::after, StepPart::forward, sum.op));
    sum.move_back(alone(gather, Placement::before, StepPart::input_gradient, sum.op));
    sum.kernels(1, 1);
  } else {
    const auto reduce = traffic<CollectiveKind::all_reduce, GroupKind::tensor>(x, bytes);
    sum.move(SumPhase::forward, alone(reduce, Placement::after, StepPart::forward, sum.op));
    sum.kernels(1, 0);
  }
}

template <class Sum>
void add_cross_entropy(Sum& sum, const LayerPricing& x, const Operator& op) {
  double width = static_cast<double>(op.in);
  if (op.split == TpSplit::vocab && x.g.padded_vocabulary > 0) width = static_cast<double>(x.g.padded_vocabulary);
  if (op.split == TpSplit::vocab) width /= x.width;
  const double logits = x.split_tokens * width;
  const EngineModel& e = *x.c.engine;
  sum.compute(memory_bound_s(x.c.device.rates, e.kernels.loss_forward_bytes * logits),
              memory_bound_s(x.c.device.rates, e.kernels.loss_backward_bytes * logits), 6, 2);
  if (op.split == TpSplit::vocab && x.s.tp > 1 && !x.ulysses) {
    const auto reduce = traffic<CollectiveKind::all_reduce, GroupKind::tensor>(x, 4.0 * x.split_tokens, 3);
    sum.move(SumPhase::forward, alone(reduce, Placement::after, StepPart::forward, sum.op));
    sum.kernels(3, 0);
    sum.wait(x.tp.size, 3, 0);
  }
}

template <class Sum>
[[gnu::always_inline]] inline void add_operator(Sum& sum, const LayerPricing& x, const LayerKind& kind, const Operator& op,
                                                Region& region) {
  const bool split = op.split != TpSplit::none;
  const double tokens = split ? x.split_tokens : x.sequence_tokens, width = split ? x.width : 1.0;
  switch (op.kind) {
    case OperatorKind::linear:
    case OperatorKind::patch_embed: add_linear(sum, x, kind, op, region); return;
    case OperatorKind::attention: add_attention(sum, x, op); return;
    case OperatorKind::embedding: add_embedding(sum, x, op); return;
    case OperatorKind::cross_entropy: add_cross_entropy(sum, x, op); return;
    case OperatorKind::dispatch:
    case OperatorKind::combine: add_exchange(sum, x, op); return;
    case OperatorKind::expert_linear: add_expert_linear(sum, x, kind, op); return;
    case OperatorKind::expert_activation:
      if (x.c.engine->kernels.fused_experts) return;
      add_elementwise(sum, x, op, gathered(x, op), x.s.etp);
      return;
    case OperatorKind::router:
      sum.compute(
          gemm_s(x.c.device.rates, x.c.device.rates.gemm_wide, x.sequence_tokens, op.experts, static_cast<double>(op.in), x.a),
          gemm_s(x.c.device.rates, x.c.device.rates.gemm_wide, x.sequence_tokens, op.experts, static_cast<double>(op.in), x.a),
          14,
          10);  // top-k, masks, counts, loss
      if (op.frozen) return;
      sum.weight(
          gemm_s(x.c.device.rates, x.c.device.rates.gemm_wide, x.sequence_tokens, op.experts, static_cast<double>(op.in), x.a));
      sum.kernels_of_weights(1);
      return;
    case OperatorKind::norm:
    case OperatorKind::activation:
    case OperatorKind::rotary:
    case OperatorKind::dropout:
    case OperatorKind::residual:
    case OperatorKind::causal_conv:
    case OperatorKind::pool: add_elementwise(sum, x, op, tokens, width); return;
    case OperatorKind::scan: add_selective_scan(sum, x, op); return;
    case OperatorKind::chunked_scan:
    case OperatorKind::gated_delta: add_chunked_scan(sum, x, op); return;
  }
}

/// Adds the measured time of the operator in place of the derived one.
template <class Sum>
void add_measured(Sum& sum, const LayerPricing& x, const LayerKind& kind, const Operator& op) {
  const Sequence& sequence = x.c.workload.training.sequence;
  const auto [shape, tokens] = profile::work_on_rank(kind, op, x.s, x.c.workload.model->vocabulary, sequence.main,
                                                     x.g.tokens * x.s.cp / std::max<std::int64_t>(1, x.g.keys));
  const profile::OperatorTime time = x.c.engine->measured->at(shape, static_cast<double>(tokens));
  const double slower = 1 / x.c.device.speed;
  sum.measured(time.forward * slower, time.input * slower, time.weight * slower);
}

/// Returns whether the shapes of an operator depend on where tokens go, so that no graph replays it.
inline bool is_routed(OperatorKind kind) {
  return kind == OperatorKind::dispatch || kind == OperatorKind::combine || kind == OperatorKind::expert_linear ||
         kind == OperatorKind::expert_activation;
}

template <class Sum>
[[gnu::always_inline]] inline void add_layer(Sum& sum, const LayerPricing& x, const LayerKind& kind) {
  Region region;
  std::int32_t index = 0;
  BlockWalk walk(kind, kind.role == LayerRole::block ? x.g.again : RecomputeModules{}, x.g.fuses_norms, x.g.exchanges_tokens,
                 x.g.second_products);
  for (const Operator& op : kind.operators) {
    const OperatorAgain again = walk.next(static_cast<std::size_t>(index));
    sum.begin_operator(index++, is_routed(op.kind) ? 1.0 : x.c.engine->kernels.graphed_launches);
    // Marks what selective recomputation runs again.
    sum.repeat(again.share, again.traffic && !(x.ulysses && op.kind == OperatorKind::attention));
    if (x.c.engine->measured != nullptr) add_measured(sum, x, kind, op);
    add_operator(sum, x, kind, op, region);
  }
}

inline bool overlaps_experts(const LayerPricing& x) { return x.c.engine->communication.overlaps_experts && x.ep.size > 1; }
/// Returns the pricing in which all-to-alls overlap another micro-batch.
inline LayerPricing beside_other_micro_batch(const LayerPricing& x, const LayerKind& kind) {
  LayerPricing out = x;
  Sums<NoRecord> own;
  add_layer(own, x, kind);
  out.other_compute = (own.forward + own.input_gradient + own.weight_gradient) / kExchanges;
  return out;
}

/// Holds the seconds that a layer waits for in addition to its operators: fitted waits of ranks for each other,
/// launches and host work.
struct LayerWaits {
  double network_forward = 0, network_back = 0;
  double host_forward = 0, host_backward = 0, host_input = 0, host_weight = 0;
};
template <class Sum>
LayerWaits waits_of(const Sum& sum, const LayerPricing& x) {
  const EngineModel& e = *x.c.engine;
  const double launch = e.measured != nullptr ? 0.0 : x.c.device.rates.launch * e.eager.eager_launches;
  const double wait = x.pipeline_crosses_nodes ? e.coefficients.collective_wait_s : 0.0;
  const double wait_forward = wait * static_cast<double>(sum.waits_forward),
               wait_input = wait * static_cast<double>(sum.waits_input);
  LayerWaits waits;
  if (crosses_nodes(x.tp, x.c.fabric.node_levels)) {
    waits.network_forward = e.coefficients.network_wait_s * static_cast<double>(sum.waits_forward);
    waits.network_back = e.coefficients.network_wait_s * static_cast<double>(sum.waits_input);
  }
  waits.host_forward = launch * sum.kernels_forward + wait_forward;
  waits.host_backward = launch * (sum.kernels_input + sum.kernels_weight) + wait_input;
  waits.host_input = launch * sum.kernels_input + wait_input;
  waits.host_weight = launch * sum.kernels_weight;
  return waits;
}

}  // namespace espalier::cost
