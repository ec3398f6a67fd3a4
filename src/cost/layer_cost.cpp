// SPDX-License-Identifier: Apache-2.0
#include "cost/layer_cost.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cost/collective.h"
#include "cost/key_value.h"
#include "cost/partitioned_block.h"
#include "cost/state_memory.h"
#include "plan/structure.h"

namespace espalier::cost {
namespace {

/// Host work of a collective in launches: the wrapper of torch.distributed, the kernel, events between its stream and that of compute.
constexpr int kCollectiveLaunches = 2;

/// Seconds of one layer, summed over its operators.
struct Sums {
  double forward = 0, input_gradient = 0, weight_gradient = 0, selective = 0;               // compute
  double exposed_forward = 0, exposed_backward = 0, exposed_input = 0, exposed_weight = 0;  // joint backward | split backward
  double hidden_forward = 0, hidden_backward = 0;
  int kernels_forward = 0, kernels_input = 0, kernels_weight = 0;
  std::int64_t waits_forward = 0, waits_input = 0;  // ranks of the group, summed over tensor-parallel collectives
  void compute(double f, double b, int kf, int kb) {
    forward += f, input_gradient += b, kernels_forward += kf, kernels_input += kb;
  }
  void wait(std::int64_t ranks, int f, int b) { waits_forward += ranks * f, waits_input += ranks * b; }
  /// Communication that nothing hides.
  void communicate(double f, double b, int kf, int kb) {
    exposed_forward += f, exposed_backward += b, exposed_input += b, kernels_forward += kf, kernels_input += kb;
  }
};

/// Everything the operator functions need for one layer kind.
struct Scene {
  const CostContext& c;
  const Strategy& s;
  LayerGeometry g;
  Group tp, cp, ep, etp;
  Slowdown tp_slowdown, cp_slowdown;  // of compute beside communication of the group
  bool ulysses, megatron_sp;
  double a;             // bytes per element
  double split_tokens;  // tokens of split operators
  double sequence_tokens;
  double width;  // divisor of split widths
  bool pipeline_crosses_nodes;
};

struct Hidden {
  double exposed, hidden;
};
Hidden hide(double communication, double compute, Slowdown k) {
  const double extra = pair_time(communication, compute, k) - compute;
  return {extra, std::max(0.0, communication - extra)};
}

/// A tensor-parallel region: from the first column linear to the row linear that closes it.
struct Region {
  double column_forward = 0, column_input = 0, column_weight = 0;
};

void close_region(Sums& sum, const Scene& x, const Region& r, double row_forward, double row_input, double bytes) {
  if (x.s.tp == 1 || x.ulysses) return;
  const auto& levels = x.c.tensor_levels;
  const Slowdown k = x.tp_slowdown;
  if (!x.megatron_sp) {
    const double reduce = all_reduce_s(levels, x.tp, bytes);
    const Hidden backward = hide(reduce, r.column_weight, k);
    sum.exposed_forward += reduce;
    sum.exposed_backward += backward.exposed, sum.hidden_backward += backward.hidden;
    sum.exposed_input += reduce;
    sum.kernels_forward += kCollectiveLaunches, sum.kernels_input += kCollectiveLaunches;
    sum.wait(x.tp.size, 1, 1);
    return;
  }
  const double gather = all_gather_s(levels, x.tp, bytes), scatter = reduce_scatter_s(levels, x.tp, bytes);
  const Hidden again = hide(gather, r.column_input, k), reduce = hide(scatter, r.column_weight, k);
  const Hidden weight = hide(gather, r.column_weight, k);
  if (x.s.overlap.tp) {
    const Hidden in = hide(gather, r.column_forward, k), out = hide(scatter, row_forward, k), dy = hide(gather, row_input, k);
    sum.exposed_forward += in.exposed + out.exposed, sum.hidden_forward += in.hidden + out.hidden;
    sum.exposed_backward += dy.exposed + again.exposed + reduce.exposed;
    sum.hidden_backward += dy.hidden + again.hidden + reduce.hidden;
    sum.exposed_input += dy.exposed + hide(scatter, r.column_input, k).exposed;
  } else {
    sum.exposed_forward += gather + scatter;
    sum.exposed_backward += gather + again.exposed + reduce.exposed;
    sum.hidden_backward += again.hidden + reduce.hidden;
    sum.exposed_input += gather + scatter;
  }
  sum.exposed_weight += weight.exposed;
  sum.kernels_forward += 2 * kCollectiveLaunches, sum.kernels_input += 3 * kCollectiveLaunches;
  sum.wait(x.tp.size, 2, 3);
}

/// Gradients of `parameters` weights on this rank: those the GEMM does not accumulate are read again and added in one pass.
void accumulate(Sums& sum, const Scene& x, double parameters) {
  if (x.c.engine->kernels.fused_gradient_accumulation) return;
  sum.weight_gradient += memory_bound_s(x.c.rates, parameters * (x.c.element_bytes + 2.0 * x.c.engine->memory.states.gradient));
}
double accumulated_bytes(const Scene& x) {
  return x.c.engine->kernels.fused_gradient_accumulation ? 2.0 * x.c.engine->memory.states.gradient : 0.0;
}

/// Share of a block's matrix products that torchtitan's per-operator policy runs again: of wq, wk, wv, wo, w1, w3, w2 the second,
/// fourth and sixth (torchtitan/distributed/activation_checkpoint.py counts products and keeps every other one): h² + h² + h·ffn of
/// 4h² + 3h·ffn with ffn = 8/3 h.
constexpr double kRecomputedProducts = 0.39;

/// Low-rank adapters beside the frozen projection to query, key and value (the default targets of PEFT and NeMo): the two small products read its input and add to its output, both ways, and
/// the gradients of the adapters read input and output gradient again. All memory-bound.
void add_adapters(Sums& sum, const Scene& x, double m, double n, double k) {
  const double pass = memory_bound_s(x.c.rates, x.a * m * k) + memory_bound_s(x.c.rates, 2 * x.a * m * n);
  sum.compute(pass, 2 * pass, 2, 4);
}

/// 8-bit matrix products: activations and output gradients are scaled, cast and transposed (2 bytes in, 1 + 1 out), one kernel each.
/// The cast of the input runs inside the normalisation or activation before it (TransformerEngine LayerNormLinear), which reads it.
void add_casts(Sums& sum, const Scene& x, double m, double n, double k) {
  sum.compute(memory_bound_s(x.c.rates, 2 * m * k), memory_bound_s(x.c.rates, 4 * m * n), 1, 1);
}

void add_linear(Sums& sum, const Scene& x, const LayerKind& kind, const Operator& op, Region& region) {
  const auto& d = x.c.rates;
  double m = x.split_tokens, n = static_cast<double>(op.out), k = static_cast<double>(op.in);
  if (op.cross) m *= static_cast<double>(x.g.cross_tokens) / static_cast<double>(std::max<std::int64_t>(1, x.g.tokens));
  if (op.split == TpSplit::none) m = x.sequence_tokens;
  if (op.split == TpSplit::vocab && x.g.padded_vocabulary > 0) n = static_cast<double>(x.g.padded_vocabulary);
  if (op.split == TpSplit::column)
    n = outputs_on_rank(kind, op, x.s.weight_tp());
  else if (op.split == TpSplit::vocab || op.split == TpSplit::heads)
    n /= x.width;
  if (op.split == TpSplit::row) k /= x.width;
  const bool eight_bit = x.c.operand_bytes < x.a && op.split != TpSplit::vocab;  // the output projection stays in 16 bits
  const double a = eight_bit ? x.c.operand_bytes : x.a, rate = eight_bit ? d.gemm : d.gemm_wide;
  const double forward = gemm_s(d, rate, m, n, k, a), input = gemm_s(d, rate, m, k, n, a);
  const bool adapters = x.c.training.optimizer == "lora";
  const double weight = adapters ? 0.0 : gemm_s(d, rate, n, k, m, a, accumulated_bytes(x) * n * k);
  sum.compute(forward, input, 1, 1);
  // its GEMM and the addition to the accumulated gradient; with a bias its reduction and its addition
  if (!adapters) {
    sum.weight_gradient += weight, sum.kernels_weight += op.parameters > op.in * op.out ? 4 : 2;
    accumulate(sum, x, n * k);
  }
  if (adapters && op.name.ends_with(".qkv")) add_adapters(sum, x, m, n, k);
  if (eight_bit) add_casts(sum, x, m, n, k);
  if (x.c.engine->kernels.selective_recomputes_linears && op.split != TpSplit::vocab)
    sum.selective += forward * kRecomputedProducts;
  if (op.split == TpSplit::column || op.split == TpSplit::vocab) {
    region.column_forward += forward, region.column_input += input, region.column_weight += weight;
  }
  const double boundary = x.a * x.split_tokens;
  if (op.split == TpSplit::row) {
    close_region(sum, x, region, forward, input, boundary * static_cast<double>(op.out));
    region = Region{};
  } else if (op.split == TpSplit::vocab && x.s.tp > 1 && !x.ulysses) {
    // Output projection: gathers its input under SP, reduces the input gradient; its output stays split for the loss.
    const double bytes = boundary * static_cast<double>(op.in);
    if (x.megatron_sp) {
      sum.communicate(all_gather_s(x.c.tensor_levels, x.tp, bytes), reduce_scatter_s(x.c.tensor_levels, x.tp, bytes), 1, 1);
      sum.wait(x.tp.size, 1, 1);
    } else {
      sum.communicate(0, all_reduce_s(x.c.tensor_levels, x.tp, bytes), 0, 1);
      sum.wait(x.tp.size, 0, 1);
    }
  }
}

void add_attention(Sums& sum, const Scene& x, const Operator& op) {
  const auto& d = x.c.rates;
  const double tokens = static_cast<double>(x.g.tokens),
               kv_tokens = static_cast<double>(op.cross ? x.g.cross_tokens : x.g.tokens);
  const double all_keys = static_cast<double>(op.cross ? x.g.cross_keys : x.g.keys);
  const double heads = static_cast<double>(op.heads) / x.s.tp,
               kv_heads = std::max(1.0, static_cast<double>(op.kv_heads) / x.s.tp);
  const double qk = op.qk_dim, v = op.v_dim;
  const bool fused = x.c.engine->memory.activations == ActivationPolicy::fused_attention;
  double forward, backward;
  if (fused) {
    const double keys = mean_keys(all_keys, static_cast<double>(op.window), op.causal);
    const double most_keys = op.window > 0 ? std::min(static_cast<double>(op.window), all_keys) : all_keys;
    const double bytes = x.a * (tokens * heads * (qk + v) + kv_tokens * kv_heads * (qk + v));
    // Ring: one kernel a step on 1/cp of the keys, and the partial results are merged in fp32 after each.
    const double steps = x.s.cp_kind == ContextParallelKind::ring ? x.s.cp : 1;
    const double merge = steps > 1 ? (steps - 1) * memory_bound_s(d, 12 * tokens * heads * v) : 0;
    const AttentionShape shape{tokens * heads, keys / steps, most_keys / steps, qk + v, bytes / steps};
    forward = steps * attention_forward_s(d, shape) + merge;
    backward = steps * attention_backward_s(d, shape) + merge;
    sum.compute(forward, backward, static_cast<int>(2 * steps - 1), static_cast<int>(4 * steps - 1));
  } else {
    const double keys = op.window > 0 ? std::min(static_cast<double>(op.window), all_keys) : all_keys;
    const double scores = heads * tokens * keys, batch = heads * tokens / std::max(1.0, keys);
    const double qk_s = batched_gemm_s(d, d.batched, batch, keys, keys, qk, x.a),
                 av_s = batched_gemm_s(d, d.batched, batch, keys, v, keys, x.a);
    // A fused causal softmax does not read the masked half; it writes all of it (Megatron-LM's scaled_upper_triang_masked_softmax).
    const double read = op.causal ? 0.5 : 1.0;
    const double soft = memory_bound_s(d, (read + 1) * x.a * scores),
                 soft_back = memory_bound_s(d, (2 * read + 1) * x.a * scores);
    const double drop = op.score_dropout ? memory_bound_s(d, (2 * x.a + 1) * scores) : 0;
    forward = qk_s + av_s + soft + drop;
    backward = 2 * (qk_s + av_s) + soft_back + drop;
    // forward: two GEMMs, softmax, dropout, copy of the output; backward: four GEMMs, dropout, softmax, three copies
    sum.compute(forward, backward, op.score_dropout ? 5 : 4, op.score_dropout ? 9 : 8);
    sum.selective += forward;
  }
  const auto exchange = [&](const Group& group) {
    // q, k, v in and the output back: four all-to-alls of what one rank holds.
    const double bytes = x.a * (tokens * heads * (qk + v) + kv_tokens * kv_heads * (qk + v));
    const double t = 4 * all_to_all_s(x.c.tensor_levels, group, bytes / 4);
    sum.communicate(t, t, 4, 4);
  };
  if (x.ulysses && x.s.tp > 1) exchange(x.tp);
  if (x.s.cp > 1 && x.s.cp_kind == ContextParallelKind::all_to_all) exchange(x.cp);
  if (x.s.cp > 1 && x.s.cp_kind == ContextParallelKind::ring) {
    const double steps = x.s.cp - 1, bytes = x.a * kv_tokens * kv_heads * (qk + v);
    const double under = steps / x.s.cp;
    const Hidden f = hide(steps * ring_step_s(x.c.tensor_levels, x.cp, bytes), forward * under, x.cp_slowdown);
    const Hidden b = hide(steps * ring_step_s(x.c.tensor_levels, x.cp, 2 * bytes), backward * under, x.cp_slowdown);
    sum.exposed_forward += f.exposed, sum.hidden_forward += f.hidden;
    sum.exposed_backward += b.exposed, sum.exposed_input += b.exposed, sum.hidden_backward += b.hidden;
    sum.kernels_forward += kCollectiveLaunches * static_cast<int>(steps);
    sum.kernels_input += kCollectiveLaunches * static_cast<int>(2 * steps);
  }
}

/// Token copies of the fullest rank, and what its experts see of them once expert tensor parallelism has gathered them.
double routed(const Scene& x, const Operator& op) { return x.sequence_tokens * op.top_k * x.g.imbalance; }
double gathered(const Scene& x, const Operator& op) { return routed(x, op) * (x.g.sequence_split > 1 ? x.s.etp : 1); }

/// Share of the token copies that a deduplicating dispatcher sends: of top_k copies on random experts as many as they reach distinct
/// places among P nodes (or ranks of one node), P·(1 − (1 − 1/P)^top_k).
double dispatched_share(const Scene& x, const Operator& op) {
  if (!x.c.engine->communication.deduplicates_dispatch || x.ep.size <= 1 || op.top_k <= 1) return 1.0;
  const double inside = static_cast<double>(std::max<std::int64_t>(1, x.ep.members[0]));
  const double places = static_cast<double>(x.ep.size) > inside ? static_cast<double>(x.ep.size) / inside : inside;
  return places * (1.0 - std::pow(1.0 - 1.0 / places, op.top_k)) / op.top_k;
}

void add_exchange(Sums& sum, const Scene& x, const Operator& op) {
  const double bytes = x.a * routed(x, op) * static_cast<double>(op.in);
  const double permute = memory_bound_s(x.c.rates, 2 * bytes);
  sum.compute(permute, permute, 6, 5);  // counts to the host, indices, gather, probabilities
  const double exchange = all_to_all_s(x.c.tensor_levels, x.ep, bytes * dispatched_share(x, op));
  double forward = exchange, backward = exchange;
  if (x.s.etp > 1 && x.g.sequence_split > 1) {  // gather before the experts, scatter after; the same backwards
    forward += all_gather_s(x.c.tensor_levels, x.etp, bytes * x.s.etp),
        backward += all_gather_s(x.c.tensor_levels, x.etp, bytes * x.s.etp);
  } else if (x.s.etp > 1) {  // all ranks hold the tokens: partial sums are reduced after the experts, gradients before them
    (op.kind == OperatorKind::combine ? forward : backward) += all_reduce_s(x.c.tensor_levels, x.etp, bytes);
  }
  const int collectives = kCollectiveLaunches * (1 + (x.s.etp > 1));
  sum.communicate(forward, backward, collectives, collectives);
}

void add_expert_linear(Sums& sum, const Scene& x, const Operator& op) {
  const double local = static_cast<double>(op.experts) / x.s.ep;
  const double m = gathered(x, op) / local;
  double n = static_cast<double>(op.out), k = static_cast<double>(op.in);
  (op.split == TpSplit::row ? k : n) /= x.s.etp;
  const DeviceRates& d = x.c.rates;
  const double forward = batched_gemm_s(d, d.grouped, local, m, n, k, x.a);
  sum.compute(forward, forward, 1, 1);
  if (x.c.training.optimizer == "lora") return;
  sum.weight_gradient += batched_gemm_s(d, d.grouped, local, m, n, k, x.a, local * accumulated_bytes(x) * n * k);
  sum.kernels_weight += 1;
  accumulate(sum, x, local * n * k);
}

/// Memory-bound operators: bytes per token and feature read and written, forward and backward.
void add_elementwise(Sums& sum, const Scene& x, const Operator& op, double tokens, double width) {
  DeviceRates d = x.c.rates;
  d.memory /= x.c.engine->coefficients.elementwise * x.c.engine->kernels.elementwise_traffic;
  const double in = static_cast<double>(op.in) / width, out = static_cast<double>(op.out) / width;
  const bool eager = x.c.engine->memory.activations == ActivationPolicy::megatron_2022_unfused;
  double forward = 0, backward = 0;
  switch (op.kind) {
    // Backward reads the input and the gradient and writes; without a fused kernel it reads both again for scale and shift.
    case OperatorKind::norm: forward = 2 * x.a * in, backward = (eager ? 5 : 3) * x.a * in; break;
    case OperatorKind::activation:
    case OperatorKind::expert_activation: forward = x.a * (in + out), backward = x.a * (2 * in + out); break;
    case OperatorKind::residual: forward = backward = 3 * x.a * in; break;  // the gradients of both branches are added
    case OperatorKind::dropout:  // forward in the residual's kernel: the mask only; backward a kernel of its own
      forward = in, backward = (2 * x.a + 1) * in;
      break;
    default: forward = 2 * x.a * in, backward = 2 * x.a * in; break;
  }
  // a norm reduces the gradients of its weight (and bias) and adds each to the accumulated one
  if (op.kind == OperatorKind::norm) sum.kernels_weight += op.parameters > op.in ? 3 : 2;
  const bool fused_away = op.kind == OperatorKind::dropout;
  const double f = fused_away ? tokens * forward / d.memory : memory_bound_s(d, tokens * forward);
  sum.compute(f, memory_bound_s(d, tokens * backward), fused_away ? 0 : 1, 1);
}

void add_embedding(Sums& sum, const Scene& x, const Operator& op) {
  const auto& d = x.c.rates;
  const double bytes = x.a * x.split_tokens * static_cast<double>(op.out);
  sum.compute(memory_bound_s(d, 2 * bytes), 0, 4, 0);  // lookup, positions, sum, dropout
  // The gradient is a dense table: it is cleared, the rows of the tokens are added (sorted, read and written), and all of it is added
  // to the accumulated gradient, in every engine. Aceso's and Mist's operator times: 8 bytes an element of an fp16 table, 25 a token
  // and feature.
  if (x.c.training.optimizer != "lora") {  // else frozen
    const double rows = x.g.padded_vocabulary > 0 && op.split == TpSplit::vocab
                            ? static_cast<double>(x.g.padded_vocabulary) / x.width
                            : static_cast<double>(op.parameters) / std::max(1.0, static_cast<double>(op.out));
    const double table = rows * static_cast<double>(op.out) * (2 * x.a + 2.0 * x.c.engine->memory.states.gradient);
    sum.weight_gradient += memory_bound_s(d, table + 12.5 * bytes), sum.kernels_weight += 4;  // sort, segments, sum, addition
  }
  if (op.split != TpSplit::vocab || x.s.tp == 1 || x.ulysses) return;
  if (x.megatron_sp) {
    sum.communicate(reduce_scatter_s(x.c.tensor_levels, x.tp, bytes), all_gather_s(x.c.tensor_levels, x.tp, bytes), 1, 1);
  } else {
    sum.communicate(all_reduce_s(x.c.tensor_levels, x.tp, bytes), 0, 1, 0);
  }
}

void add_cross_entropy(Sums& sum, const Scene& x, const Operator& op) {
  double width = static_cast<double>(op.in);
  if (op.split == TpSplit::vocab && x.g.padded_vocabulary > 0) width = static_cast<double>(x.g.padded_vocabulary);
  if (op.split == TpSplit::vocab) width /= x.width;
  const double logits = x.split_tokens * width;
  const EngineModel& e = *x.c.engine;
  sum.compute(memory_bound_s(x.c.rates, e.kernels.loss_forward_bytes * logits),
              memory_bound_s(x.c.rates, e.kernels.loss_backward_bytes * logits), 6, 2);
  if (op.split == TpSplit::vocab && x.s.tp > 1 && !x.ulysses) {
    sum.communicate(3 * all_reduce_s(x.c.tensor_levels, x.tp, 4.0 * x.split_tokens), 0, 3, 0);
    sum.wait(x.tp.size, 3, 0);
  }
}

void add_operator(Sums& sum, const Scene& x, const LayerKind& kind, const Operator& op, Region& region) {
  const bool split = op.split != TpSplit::none;
  const double tokens = split ? x.split_tokens : x.sequence_tokens, width = split ? x.width : 1.0;
  const double before = sum.forward;
  switch (op.kind) {
    case OperatorKind::linear:
    case OperatorKind::patch_embed: add_linear(sum, x, kind, op, region); return;
    case OperatorKind::attention: add_attention(sum, x, op); return;
    case OperatorKind::embedding: add_embedding(sum, x, op); return;
    case OperatorKind::cross_entropy: add_cross_entropy(sum, x, op); return;
    case OperatorKind::dispatch:
    case OperatorKind::combine: add_exchange(sum, x, op); return;
    case OperatorKind::expert_linear: add_expert_linear(sum, x, op); return;
    case OperatorKind::expert_activation: add_elementwise(sum, x, op, gathered(x, op), x.s.etp); return;
    case OperatorKind::router:
      sum.compute(gemm_s(x.c.rates, x.c.rates.gemm_wide, x.sequence_tokens, op.experts, static_cast<double>(op.in), x.a),
                  gemm_s(x.c.rates, x.c.rates.gemm_wide, x.sequence_tokens, op.experts, static_cast<double>(op.in), x.a), 14,
                  10);  // top-k, masks, counts, loss
      sum.weight_gradient +=
          gemm_s(x.c.rates, x.c.rates.gemm_wide, x.sequence_tokens, op.experts, static_cast<double>(op.in), x.a);
      sum.kernels_weight += 1;
      return;
    case OperatorKind::norm:
    case OperatorKind::activation:
      add_elementwise(sum, x, op, tokens, width);
      if (x.c.engine->memory.activations == ActivationPolicy::fused_attention) sum.selective += sum.forward - before;
      return;
    case OperatorKind::rotary:
    case OperatorKind::dropout:
    case OperatorKind::residual:
    case OperatorKind::pool: add_elementwise(sum, x, op, tokens, width); return;
  }
}

std::int64_t ns(double seconds) { return std::llround(seconds * 1e9); }

PhaseTime phase(double compute, double exposed, double hidden, double launches_s) {
  PhaseTime t;
  t.compute_ns = ns(compute), t.exposed_ns = ns(exposed), t.hidden_ns = ns(hidden);
  t.other_ns = std::max<std::int64_t>(0, ns(launches_s) - t.compute_ns - t.exposed_ns);
  return t;
}

LayerCost cost_of(const Scene& x, const LayerKind& kind) {
  Sums sum;
  Region region;
  for (const Operator& op : kind.operators) add_operator(sum, x, kind, op, region);
  const EngineModel& e = *x.c.engine;
  const double launch = x.c.rates.launch * e.kernels.eager_launches;
  const double wait = x.pipeline_crosses_nodes ? e.coefficients.collective_wait_s : 0.0;
  const double wait_forward = wait * static_cast<double>(sum.waits_forward),
               wait_input = wait * static_cast<double>(sum.waits_input);
  if (crosses_nodes(x.tp, x.c.node_levels)) {
    const double network = e.coefficients.network_wait_s;
    sum.exposed_forward += network * static_cast<double>(sum.waits_forward);
    sum.exposed_backward += network * static_cast<double>(sum.waits_input);
    sum.exposed_input += network * static_cast<double>(sum.waits_input);
  }
  LayerCost cost;
  cost.forward = phase(sum.forward, sum.exposed_forward, sum.hidden_forward, launch * sum.kernels_forward + wait_forward);
  cost.backward = phase(sum.input_gradient + sum.weight_gradient, sum.exposed_backward, sum.hidden_backward,
                        launch * (sum.kernels_input + sum.kernels_weight) + wait_input);
  cost.backward_input = phase(sum.input_gradient, sum.exposed_input, 0, launch * sum.kernels_input + wait_input);
  cost.backward_weight = phase(sum.weight_gradient, sum.exposed_weight, 0, launch * sum.kernels_weight);
  cost.recompute_selective = phase(sum.selective, 0, 0, 0);
  cost.saved = saved_activations(kind, x.g, x.c.engine->memory.activations);
  cost.transient = transient_activations(kind, x.g, x.c.engine->memory.activations);
  return cost;
}

/// Rate of the engine's attention kernels relative to the device's own.
double attention_rate(AttentionKernel kernel, const DeviceEfficiency& device) {
  switch (kernel) {
    case AttentionKernel::vendor: return 1.0;
    case AttentionKernel::flash2: return device.attention_flash2;
    case AttentionKernel::flash1: return 0.6 * device.attention_flash2;
  }
  return 1.0;
}

/// The fabric as communication of one kind sees it: `time_scale` times slower than the fabric model.
std::vector<FabricLevel> scaled(std::vector<FabricLevel> levels, double time_scale) {
  for (FabricLevel& level : levels) level.efficiency /= time_scale, level.latency = Seconds(level.latency.count() * time_scale);
  return levels;
}

}  // namespace

namespace {

std::int64_t workspace_bytes_of(const WorkspacePolicy& w, const DeviceKind& device) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const bool hopper = device.peak_of(Precision::fp8).count() > 0;  // Hopper and later
  const std::int64_t cublas = hopper || w.deterministic ? 32 * kMiB : 8 * kMiB + kMiB / 8;
  return w.cublas * cublas + w.transformer_engine * (hopper ? 32 : 4) * kMiB;
}

}  // namespace

CostContext::CostContext(const Model& m, const Cluster& cluster, const Training& t, const EngineModel& e)
    : model(&m),
      levels(cluster.levels()),
      tensor_levels(scaled(levels, e.coefficients.tensor_communication)),
      data_levels(scaled(levels, e.coefficients.data_communication)),
      rates(rates_of(cluster.groups.front().device, t.precision)),
      training(t),
      engine(&e),
      world(cluster.devices()),
      node_levels(static_cast<int>(cluster.groups.front().intra.size())),
      partitions(std::make_shared<PartitionMemo>()) {
  experts = has_experts(m);
  efficiency = cluster.groups.front().device.efficiency;
  memory_bandwidth = cluster.groups.front().device.memory_bandwidth.count();
  for (double* rate :
       {&rates.gemm, &rates.gemm_wide, &rates.batched, &rates.grouped, &rates.attention, &rates.attention_backward})
    *rate /= e.coefficients.compute;
  rates.launch *= e.kernels.host_launches * e.coefficients.launch;
  const double kernel = attention_rate(e.kernels.attention_kernel, efficiency);
  rates.attention *= kernel, rates.attention_backward *= kernel;
  workspace_bytes = workspace_bytes_of(e.memory.workspace, cluster.groups.front().device);
  element_bytes = t.precision == Precision::fp32 || t.precision == Precision::tf32 ? 4 : 2;
  operand_bytes = t.precision == Precision::fp8 ? 1 : element_bytes;
  for (std::size_t i = 0; i < m.layers.size(); ++i)
    if (m.layer(i).stream == TokenStream::encoder) encoder_hidden = m.layer(i).hidden;
}

Slowdown CostContext::slowdown(const std::vector<FabricLevel>& on, const Group& group) const {
  return slowdown_of(on, group, efficiency, memory_bandwidth);
}

LayerGeometry geometry_of(const CostContext& c, const LayerKind& kind, const Strategy& s, std::int32_t micro_batch) {
  LayerGeometry g;
  g.keys = tokens_per_sample(kind, c.training.sequence);
  g.tokens = g.keys * micro_batch / s.cp;
  g.cross_keys = c.training.sequence.encoder;
  g.cross_tokens = g.cross_keys * micro_batch / s.cp;
  g.element_bytes = c.element_bytes;
  g.split = s.tp;
  g.sequence_split = s.sp == SequenceParallel::none ? 1 : s.tp;
  g.expert_split = s.etp;
  g.imbalance = std::min(c.training.moe_imbalance, static_cast<double>(s.ep));  // a rank cannot get more than all copies
  g.weight_split = s.weight_tp();
  g.loss = c.engine->memory.loss;
  // of one sample [batch, sequence] and [sequence, batch] are the same
  g.copies_attention_output = c.engine->memory.copies_attention_output && micro_batch > 1;
  g.eager_gate = c.engine->memory.eager_gate;
  g.keeps_gathered = c.engine->memory.keeps_gathered;
  g.padded_vocabulary = padded_vocabulary(*c.model, *c.engine, s.weight_tp());
  return g;
}

namespace {

/// Puts partitioned blocks in place of those of plain tensor parallelism.
void partition_blocks(const CostContext& c, const Strategy& s, std::int32_t micro_batch, std::vector<LayerCost>& out) {
  const auto& kinds = c.model->kinds;
  std::int64_t gather = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].role != LayerRole::block) continue;
    out[i] = layer_cost_of(c.partitions->block(c, static_cast<std::int32_t>(i), micro_batch, s.tp, s.partition), s);
    gather = std::max(gather, out[i].boundary_gather_ns);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].role == LayerRole::block) continue;
    if (kinds[i].role == LayerRole::embedding)
      out[i].backward.exposed_ns += gather, out[i].backward_input.exposed_ns += gather;
    else
      out[i].forward.exposed_ns += gather;
  }
}

}  // namespace

void layer_costs(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
                 std::vector<LayerCost>& out) {
  const auto& kinds = c.model->kinds;
  out.resize(kinds.size());
  const bool crosses = c.engine->coefficients.collective_wait_s > 0 && c.engine->communication.message_host_calls > 0 &&
                       pipeline_crosses(c.levels, s, stages, c.node_levels);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const LayerGeometry g = geometry_of(c, kinds[i], s, micro_batch);
    const bool ulysses = s.sp == SequenceParallel::ulysses;
    const double tokens = static_cast<double>(g.tokens);
    const Group tp = tp_group(c.levels, s), cp = cp_group(c.levels, s);
    const Scene scene{c,
                      s,
                      g,
                      tp,
                      cp,
                      ep_group(c.levels, s, stages),
                      place_group(c.levels, s.etp, 1),
                      c.slowdown(c.tensor_levels, tp),
                      c.slowdown(c.tensor_levels, cp),
                      ulysses,
                      s.sp == SequenceParallel::megatron,
                      static_cast<double>(c.element_bytes),
                      ulysses ? tokens / s.tp : tokens,
                      tokens / g.sequence_split,
                      static_cast<double>(s.weight_tp()),
                      crosses};
    out[i] = cost_of(scene, kinds[i]);
    const ParameterElements p = parameters_on_rank(*c.model, kinds[i], *c.engine, s);
    out[i].dense_parameters = p.dense, out[i].expert_parameters = p.expert;
    out[i].tensor_sync = tensor_sync(kinds[i], s);
    const std::int64_t boundary = boundary_elements(kinds[i], c.training.sequence, c.encoder_hidden) * micro_batch;
    out[i].boundary_bytes = (boundary * c.element_bytes / s.cp + g.sequence_split - 1) / g.sequence_split;
  }
  if (!s.partition.empty()) partition_blocks(c, s, micro_batch, out);
}

}  // namespace espalier::cost
