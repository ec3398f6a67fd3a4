// SPDX-License-Identifier: Apache-2.0
#include "cost/activation_memory.h"

#include <algorithm>
#include <cmath>

#include "base/division.h"
#include "cost/operator_cost.h"
#include "plan/engine.h"
#include "plan/key_value.h"
#include "plan/latent_attention.h"
#include "plan/recompute_modules.h"

namespace espalier::cost {
namespace {

using i64 = std::int64_t;

/// Holds bytes by region, before they are divided; `cheap` is the part that selective recomputation drops.
struct Regions {
  i64 split = 0, sequence = 0, whole = 0, expert = 0;
  i64 cheap_split = 0, cheap_sequence = 0, cheap_expert = 0;
  void add(TpSplit region, i64 bytes, bool cheap = false) {
    const bool in_sequence = region == TpSplit::none || region == TpSplit::column;
    (in_sequence ? sequence : split) += bytes;
    if (cheap) (in_sequence ? cheap_sequence : cheap_split) += bytes;
  }
  void add_expert(i64 bytes, bool cheap) {
    expert += bytes;
    if (cheap) cheap_expert += bytes;
  }
};

/// Holds the context of an operator that is counted: its neighbours, and the share of it that runs again.
struct CountedOperator {
  const LayerKind& kind;
  const Operator& op;
  const Operator *before, *after;
  const LayerGeometry& g;
  ActivationPolicy policy;
  OperatorAgain again;
  [[nodiscard]] bool fused() const { return policy == ActivationPolicy::fused_attention; }
  [[nodiscard]] bool runs_again(RecomputeModule module) const { return g.again.has(module); }
};

/// Returns whether the gradient of something trained needs the operator's input.
bool needs_input(const Operator& op) { return !op.frozen || op.adapters > 0; }

/// Returns the bytes of elements of a size in 1/32 bytes; 0: as activations.
i64 bytes_of(std::int32_t size, const LayerGeometry& g, i64 elements) {
  return size > 0 ? ceil_div(size * elements, 32) : g.element_bytes * elements;
}

/// Returns the bytes of a kept input. 8-bit and 4-bit products keep the cast input; the output projection stays in 16
/// bits.
i64 kept_bytes(const Operator& op, const LayerGeometry& g, i64 elements) {
  return bytes_of(op.split != TpSplit::vocab ? g.operand_size : 0, g, elements);
}
bool casts(const LayerGeometry& g) { return g.operand_size > 0 && g.operand_size < 32 * g.element_bytes; }

i64 vocabulary_width(const Operator& op, i64 width, const LayerGeometry& g) {
  return op.split == TpSplit::vocab && g.padded_vocabulary > 0 ? g.padded_vocabulary : width;
}

/// Return the token copies on a rank before dispatch, and on the fullest expert rank after it.
i64 own_copies(const Operator& op, const LayerGeometry& g) { return ceil_div(g.tokens, g.sequence_split) * op.top_k; }
i64 routed_tokens(const Operator& op, const LayerGeometry& g) {
  return static_cast<i64>(std::llround(std::ceil(static_cast<double>(own_copies(op, g)) * g.imbalance)));
}
/// Returns the number of ranks whose copies expert tensor parallelism gathers; 1 where they all hold the same tokens
/// already (no sequence parallelism).
i64 gathered(const LayerGeometry& g) { return g.sequence_split > 1 ? g.expert_split : 1; }

/// Returns the bytes that an activation keeps of its input.
i64 activation_bytes(const LayerGeometry& g, i64 elements) { return bytes_of(g.activation_size, g, elements); }

/// Returns the scores of all queries on a rank, before heads are split.
i64 scores_of(const Operator& op, const LayerGeometry& g) {
  const i64 all_keys = op.cross ? g.cross_keys : keys_in_reach(op, g.keys);
  return g.tokens * op.heads * (op.window > 0 ? std::min(op.window, all_keys) : all_keys);
}

void add_attention(Regions& r, const CountedOperator& p) {
  const Operator& op = p.op;
  const LayerGeometry& g = p.g;
  const i64 a = g.element_bytes, t = g.tokens;
  const i64 kv_tokens = op.cross ? g.cross_tokens : t;
  const i64 q = a * t * op.heads * op.qk_dim;
  // If there are more ranks than key/value heads, every rank keeps a whole head.
  const i64 kv_heads = op.kv_heads > 0 ? std::max<i64>(op.kv_heads, g.split) : 0;
  const i64 k = a * kv_tokens * kv_heads * op.qk_dim, v = a * kv_tokens * kv_heads * op.v_dim;
  const MadeOfLatents made = p.runs_again(RecomputeModule::mla_up_proj) ? made_of_latents(p.kind, op) : MadeOfLatents{};
  const bool core = p.again.share > 0;
  r.add(TpSplit::heads, q, made.queries);
  r.add(TpSplit::heads, k + v, made.keys);
  if (p.fused()) {
    const i64 out = a * t * op.heads * op.v_dim;
    const bool copied = g.copies_attention_output;
    const bool read = p.after != nullptr && p.after->kind == OperatorKind::linear && needs_input(*p.after) && !casts(g);
    r.add(TpSplit::heads, out, core && (copied || !read));
    if (copied) r.add(TpSplit::heads, out, core && !read);
    r.add(TpSplit::heads, 4 * t * op.heads, core);
    if (g.copies_rotated) r.add(TpSplit::heads, q + k);
    return;
  }
  const i64 scores = scores_of(op, g);
  r.add(TpSplit::heads, a * scores, core);
  if (op.score_dropout) r.add(TpSplit::heads, (1 + a) * scores, core);
}

void add_scan(Regions& r, const Operator& op, const LayerGeometry& g) {
  const i64 a = g.element_bytes, t = g.tokens, states = op.qk_dim;
  if (op.kind == OperatorKind::scan) {  // B and C are whole on every rank
    r.add(TpSplit::heads, 2 * a * t * op.in + ceil_div(8 * t * op.in * states, op.chunk));
    r.whole += 2 * a * t * states;
    return;
  }
  const i64 inputs = 2 * op.kv_heads * states + i64{op.heads} * op.v_dim;
  const i64 inverse = op.kind == OperatorKind::gated_delta ? op.heads * op.chunk : 0;
  r.add(TpSplit::heads, a * t * (inputs + inverse) + 8 * t * op.heads);
}

/// Returns whether the router keeps its input, which the gate's weight gradient needs. Shared experts, if any, keep
/// the same tensor, unless they cast it.
bool router_keeps_input(const LayerKind& kind, const LayerGeometry& g) {
  const auto router = std::find_if(kind.operators.begin(), kind.operators.end(),
                                   [](const Operator& op) { return op.kind == OperatorKind::router; });
  if (router == kind.operators.end() || router->frozen) return false;
  if (casts(g)) return true;
  return std::none_of(router, kind.operators.end(), [&](const Operator& op) {
    return op.kind == OperatorKind::linear && needs_input(op) && op.in == router->in && op.split != TpSplit::row;
  });
}

/// Adds the input of a linear. The previous operator's output decides whether it is a tensor of its own.
void add_linear(Regions& r, const CountedOperator& p) {
  const Operator& op = p.op;
  if (!needs_input(op)) return;
  const bool after_attention = p.fused() && p.before != nullptr && p.before->kind == OperatorKind::attention;
  if (after_attention && !casts(p.g)) return;  // attention keeps its output; a cast of it is another tensor
  const i64 tokens = op.cross ? p.g.cross_tokens : p.g.tokens;
  const bool kept_for_router = p.again.inside && p.again.part == BlockPart::shared_experts &&
                               p.runs_again(RecomputeModule::moe) && router_keeps_input(p.kind, p.g);
  r.add(op.split == TpSplit::row ? TpSplit::row : TpSplit::none, kept_bytes(op, p.g, tokens * op.in),
        p.again.input_again || kept_for_router);
}

void add_activation(Regions& r, const CountedOperator& p) {
  const Operator& op = p.op;
  const i64 t = p.g.tokens, gate = p.g.eager_gate && op.in == 2 * op.out ? op.out : 0;
  const i64 half = p.runs_again(RecomputeModule::every_second_mm) && op.in == 2 * op.out ? op.out : 0;
  const TpSplit region = op.split == TpSplit::none ? TpSplit::none : TpSplit::heads;
  r.add(region, activation_bytes(p.g, t * (op.in - half)), p.again.inside);
  r.add(region, activation_bytes(p.g, t * half), true);
  r.add(region, t * p.g.element_bytes * gate, p.again.share > 0);
}

/// Adds the products and the activation of experts behind the exchange.
void add_expert(Regions& r, const CountedOperator& p) {
  const Operator& op = p.op;
  const LayerGeometry& g = p.g;
  const bool after_activation = p.before != nullptr && p.before->kind == OperatorKind::expert_activation;
  const bool cheap = p.again.inside || (op.kind == OperatorKind::expert_linear && p.again.input_again);
  const i64 copies = routed_tokens(op, g) * gathered(g);
  if (after_activation && g.weighs_inside_experts && p.before->in == p.before->out)
    r.add_expert(ceil_div(g.element_bytes * copies * op.in, g.expert_split), cheap);
  if (op.frozen) return;
  // The routed copies after dispatch are the first linear's input, and are counted with the dispatch.
  if (p.before != nullptr && p.before->kind == OperatorKind::dispatch) return;
  const i64 divisor = op.split == TpSplit::row || op.kind == OperatorKind::expert_activation ? g.expert_split : 1;
  const i64 all = copies * op.in;
  r.add_expert(ceil_div(op.kind == OperatorKind::expert_linear ? kept_bytes(op, g, all) : activation_bytes(g, all), divisor),
               cheap);
}

void add_operator(Regions& r, const CountedOperator& p) {
  const Operator& op = p.op;
  const LayerGeometry& g = p.g;
  const i64 a = g.element_bytes, t = g.tokens;
  switch (op.kind) {
    case OperatorKind::norm: r.add(op.split, a * t * op.in + (p.fused() ? 4 * t : 0)); break;
    case OperatorKind::linear:
    case OperatorKind::patch_embed: add_linear(r, p); break;
    case OperatorKind::attention: add_attention(r, p); break;
    case OperatorKind::activation: add_activation(r, p); break;
    case OperatorKind::dropout: r.add(op.split == TpSplit::none ? TpSplit::none : TpSplit::heads, t * op.in); break;
    case OperatorKind::router: r.add(TpSplit::none, 4 * t * op.experts, p.again.inside); break;
    case OperatorKind::dispatch:
      r.add_expert(kept_bytes(op, g, routed_tokens(op, g) * gathered(g) * op.in), p.again.inside);
      break;
    case OperatorKind::combine:
      if (!g.weighs_inside_experts) r.add_expert(a * own_copies(op, g) * op.in, p.again.inside);
      break;
    case OperatorKind::expert_activation:
    case OperatorKind::expert_linear: add_expert(r, p); break;
    case OperatorKind::cross_entropy:
      r.add(op.split, i64{g.loss.saved} * g.loss.tokens_at_once(t) * vocabulary_width(op, op.in, g));
      break;
    case OperatorKind::causal_conv: r.add(TpSplit::heads, a * t * op.in); break;
    case OperatorKind::scan:
    case OperatorKind::chunked_scan:
    case OperatorKind::gated_delta: add_scan(r, op, g); break;
    case OperatorKind::embedding:
    case OperatorKind::rotary:
    case OperatorKind::residual:
    case OperatorKind::pool: break;
  }
}

}  // namespace

namespace {

/// Returns whether an earlier linear keeps the same input (q, k, v written separately; MLA's two down-projections).
bool shares_input(const LayerKind& kind, std::size_t i) {
  const auto& ops = kind.operators;
  const Operator& op = ops[i];
  if (op.parallel) return true;
  if (i == 0 || op.kind != OperatorKind::linear || op.split == TpSplit::row || ops[i - 1].kind != OperatorKind::linear)
    return false;
  // The previous linear's output is this one's input, unless it is split: only a row linear reads a split output.
  if (ops[i - 1].out == op.in && ops[i - 1].split != TpSplit::column) return false;
  for (std::size_t j = i; j-- > 0 && ops[j].kind != OperatorKind::residual;)
    if (ops[j].kind == OperatorKind::linear && needs_input(ops[j]) && ops[j].in == op.in && ops[j].split != TpSplit::row &&
        ops[j].cross == op.cross)
      return true;
  return false;
}

/// Returns whether only frozen experts read the routed copies.
bool for_frozen_experts(const LayerKind& kind, std::size_t i) {
  return kind.operators[i].kind == OperatorKind::dispatch && i + 1 < kind.operators.size() && kind.operators[i + 1].frozen;
}

}  // namespace

SavedBytes saved_activations(const LayerKind& kind, const LayerGeometry& g, ActivationPolicy policy) {
  Regions r;
  BlockWalk walk(kind, g.again, g.fuses_norms, g.exchanges_tokens, g.second_products);
  const std::size_t n = kind.operators.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Operator& op = kind.operators[i];
    const CountedOperator p{
        kind,   op,          i > 0 ? &kind.operators[i - 1] : nullptr, i + 1 < n ? &kind.operators[i + 1] : nullptr, g,
        policy, walk.next(i)};
    if (op.kind == OperatorKind::router && router_keeps_input(kind, g))
      r.add(TpSplit::none, i64{g.element_bytes} * g.tokens * op.in, p.again.input_again);
    r.whole += i64{g.element_bytes} * g.tokens * op.adapters * op.adapter_rank;  // between the matrices of its adapters
    if (!shares_input(kind, i) && !for_frozen_experts(kind, i)) add_operator(r, p);
  }
  SavedBytes saved;
  const i64 kept = r.whole + r.expert;
  saved.none = ceil_div(r.split, g.split) + ceil_div(r.sequence, g.sequence_split) + kept;
  saved.selective = ceil_div(r.split - r.cheap_split, g.split) + ceil_div(r.sequence - r.cheap_sequence, g.sequence_split) +
                    kept - r.cheap_expert;
  const std::int64_t input = std::int64_t{g.element_bytes} * g.tokens * kind.hidden;
  saved.full = policy == ActivationPolicy::megatron_2022_unfused ? input : ceil_div(input, g.sequence_split);
  return saved;
}

double offloaded_share(const EngineModel& engine, const Model& model) {
  const auto blocks = static_cast<double>(std::max<i64>(1, model.blocks()));
  const double left = std::max(0.0, 1.0 - engine.memory.blocks_on_device / blocks);
  return engine.memory.offloaded_activations * left;
}

SavedBytes hosted_activations(const LayerKind& kind, const LayerGeometry& g, const SavedBytes& saved) {
  if (g.offloaded <= 0 || kind.role != LayerRole::block) return {};
  const auto part = [&](i64 bytes) { return static_cast<i64>(std::floor(g.offloaded * static_cast<double>(bytes))); };
  return {part(saved.none), part(saved.selective), part(saved.full)};
}

std::int64_t score_buffer(const LayerKind& kind, const LayerGeometry& g) {
  i64 most = 0;
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::attention) most = std::max(most, ceil_div(g.element_bytes * scores_of(op, g), g.split));
  return most;
}

namespace {

/// Returns the forward and backward bytes of one operator: its output, and the gradients of its input and output.
TransientBytes working_set(const LayerKind& kind, const Operator& op, const LayerGeometry& g, ActivationPolicy policy) {
  const i64 a = g.element_bytes, divisor = op.split != TpSplit::none ? g.split : g.sequence_split;
  const i64 out = op.kind == OperatorKind::linear || op.kind == OperatorKind::activation ? op.out : op.in;
  // The loss counts the logits and their gradient.
  if (op.kind == OperatorKind::linear && op.split == TpSplit::vocab) return {};
  if (op.kind == OperatorKind::cross_entropy) {
    const i64 logits = ceil_div(g.loss.tokens_at_once(g.tokens) * vocabulary_width(op, op.in, g), divisor), copy = a == 4 ? 2 : 0;
    return {logits * (g.loss.forward - copy), logits * (g.loss.backward - copy)};
  }
  if (op.kind == OperatorKind::expert_linear) {
    const i64 tokens = routed_tokens(op, g) * gathered(g);
    return {a * tokens * op.out, a * tokens * (op.in + op.out)};
  }
  if (op.kind == OperatorKind::attention) {
    const i64 q = i64{op.heads} * op.qk_dim, o = i64{op.heads} * op.v_dim;
    // Unfused attention adds the scores before the softmax, and the gradients of dropout and softmax.
    const i64 all_keys = op.cross ? g.cross_keys : keys_in_reach(op, g.keys),
              keys = op.window > 0 ? std::min(op.window, all_keys) : all_keys;
    const i64 scores = policy == ActivationPolicy::megatron_2022_unfused ? i64{op.heads} * keys : 0;
    return {ceil_div(a * g.tokens * (q + scores), divisor), ceil_div(a * g.tokens * (q + o + 2 * scores), divisor)};
  }
  // Chunked scans also hold the states between chunks, in fp32.
  if (op.kind == OperatorKind::chunked_scan || op.kind == OperatorKind::gated_delta) {
    const i64 states = ceil_div(4 * g.tokens * op.heads * op.qk_dim * op.v_dim, op.chunk);
    return {ceil_div(a * g.tokens * op.out + states, divisor), ceil_div(a * g.tokens * (op.in + op.out) + 2 * states, divisor)};
  }
  // An embedding reads indices, not rows.
  if (op.kind == OperatorKind::embedding) return {a * g.tokens * op.out, a * g.tokens * op.out};
  i64 input = ceil_div(a * g.tokens * op.in, divisor), output = ceil_div(a * g.tokens * out, divisor);
  if (const ReplicatedKeys keys = replicated_keys(kind, op, g.weight_split); keys.any())
    output = a * g.tokens * ((op.out - keys.outputs) / g.weight_split + keys.on_rank());
  if (g.weight_split == 1 || op.kind != OperatorKind::linear) return {output, input + output};
  // Split weights need the whole input of a column linear: gathered under sequence parallelism, and again for its
  // weight gradient. They also need the whole output of a row linear, before it is reduced.
  const i64 gathered_input = g.sequence_split > 1 ? a * g.tokens * op.in : 0;
  if (op.split == TpSplit::column) return {gathered_input + output, gathered_input + a * g.tokens * op.in + output};
  if (op.split == TpSplit::row) output = a * g.tokens * op.out;
  return {output, input + output};
}

}  // namespace

namespace {

/// Returns the bytes of the full-width copy of a weight that is kept in fewer bits.
i64 written_out(const LayerKind& kind, const Operator& op, const LayerGeometry& g) {
  const bool linear = op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear;
  if (!op.frozen || !g.writes_weights_out || kind.role != LayerRole::block || !linear) return 0;
  const i64 parts = op.kind == OperatorKind::linear ? (op.split == TpSplit::none ? 1 : g.weight_split) : g.expert_parts;
  return ceil_div(i64{g.element_bytes} * op.parameters, parts);
}

}  // namespace

TransientBytes transient_activations(const LayerKind& kind, const LayerGeometry& g, ActivationPolicy policy) {
  TransientBytes most;
  for (const Operator& op : kind.operators) {
    TransientBytes one = working_set(kind, op, g, policy);
    const i64 weight = written_out(kind, op, g);
    one.forward += weight;
    one.backward += weight;
    most.forward = std::max(most.forward, one.forward);
    most.backward = std::max(most.backward, one.backward);
  }
  return most;
}

}  // namespace espalier::cost
