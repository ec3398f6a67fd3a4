// SPDX-License-Identifier: Apache-2.0
#include "model/operators.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/invariant.h"

namespace espalier::model {
namespace {

Operator make(OperatorKind kind, std::string name, std::int64_t in, std::int64_t out, TpSplit split) {
  Operator op;
  op.kind = kind;
  op.name = std::move(name);
  op.in = in;
  op.out = out;
  op.split = split;
  return op;
}

/// Returns a norm over features that are split like heads: its weights are split with them.
Operator split_norm(std::string name, std::int64_t width, int weights) {
  Operator op = make(OperatorKind::norm, std::move(name), width, width, TpSplit::heads);
  op.parameters = weights * width;
  return op;
}

Operator expert_operator(OperatorKind kind, std::string name, std::int64_t in, std::int64_t out, TpSplit split,
                         const ExpertShape& shape) {
  Operator op = make(kind, std::move(name), in, out, split);
  op.experts = static_cast<std::int32_t>(shape.experts);
  op.top_k = static_cast<std::int32_t>(shape.top_k);
  return op;
}

Operator expert_linear(std::string name, std::int64_t in, std::int64_t out, TpSplit split, const ExpertShape& shape) {
  Operator op = expert_operator(OperatorKind::expert_linear, std::move(name), in, out, split, shape);
  op.parameters = times(shape.experts, times(in, out) + (shape.bias ? out : 0));
  op.parameters_unsplit = shape.bias && split == TpSplit::row ? times(shape.experts, out) : 0;
  return op;
}

}  // namespace

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kHuge ? kHuge : product;
}

Operator linear(std::string name, std::int64_t in, std::int64_t out, TpSplit split, bool bias) {
  Operator op = make(OperatorKind::linear, std::move(name), in, out, split);
  const std::int64_t bias_parameters = bias ? out : 0;
  op.parameters = times(in, out) + bias_parameters;
  if (split == TpSplit::none) op.parameters_unsplit = op.parameters;
  if (split == TpSplit::row) op.parameters_unsplit = bias_parameters;
  return op;
}

Operator norm(std::string name, std::int64_t width, int weights) {
  Operator op = make(OperatorKind::norm, std::move(name), width, width, TpSplit::none);
  op.parameters = op.parameters_unsplit = weights * width;
  return op;
}

Operator dropout(std::string name, std::int64_t width, TpSplit split) {
  return make(OperatorKind::dropout, std::move(name), width, width, split);
}

Operator residual(std::string name, std::int64_t width) {
  return make(OperatorKind::residual, std::move(name), width, width, TpSplit::none);
}

Operator activation(std::string name, std::int64_t in, std::int64_t out, TpSplit split) {
  return make(OperatorKind::activation, std::move(name), in, out, split);
}

Operator table(std::string name, std::int64_t rows, std::int64_t width, TpSplit split) {
  Operator op = make(OperatorKind::embedding, std::move(name), rows, width, split);
  op.parameters = times(rows, width);
  op.parameters_unsplit = split == TpSplit::none ? op.parameters : 0;
  return op;
}

Operator pool(std::string name, std::int64_t width) {
  return make(OperatorKind::pool, std::move(name), width, width, TpSplit::none);
}

Operator cross_entropy(std::int64_t classes, TpSplit split) {
  return make(OperatorKind::cross_entropy, "head.loss", classes, 1, split);
}

void use_again(Operator& op) {
  if (op.parameters == 0) return;
  op.name.insert(0, "again.");
  op.parameters = op.parameters_unsplit = 0;
}

Operator attention_core(std::string name, const AttentionShape& shape) {
  Operator op = make(OperatorKind::attention, std::move(name), (shape.heads + 2 * shape.kv_heads) * shape.head_dim,
                     shape.heads * shape.head_dim, TpSplit::heads);
  op.heads = static_cast<std::int32_t>(shape.heads);
  op.kv_heads = static_cast<std::int32_t>(shape.kv_heads);
  op.qk_dim = op.v_dim = static_cast<std::int32_t>(shape.head_dim);
  op.window = shape.window;
  op.causal = shape.causal;
  op.score_dropout = shape.score_dropout;
  op.chunk = shape.chunk;
  if (shape.sinks) op.parameters = shape.heads;
  return op;
}

void add_attention(Operators& list, const std::string& prefix, const AttentionShape& shape) {
  const std::int64_t query = shape.heads * shape.head_dim, key = shape.kv_heads * shape.head_dim;
  const std::int64_t made = shape.foreign_keys ? 0 : shape.keys_are_values ? 1 : 2;  // number of keys and values
  if (shape.gate > 0) list.push_back(linear(prefix + ".gate", shape.hidden, shape.gate, TpSplit::column, false));
  list.push_back(linear(prefix + ".qkv", shape.hidden, query + made * key, TpSplit::column, shape.qkv_bias));
  if (shape.qk_norm) {
    for (const auto& [name, width] : {std::pair{".q_norm", query}, std::pair{".k_norm", key}}) {
      if (shape.foreign_keys && name == std::string_view(".k_norm")) continue;
      Operator op = make(OperatorKind::norm, prefix + name, width, width, TpSplit::heads);
      op.parameters = shape.qk_norm_weights * (shape.qk_norm_whole ? width : shape.head_dim);
      op.parameters_unsplit = shape.qk_norm_whole ? 0 : op.parameters;
      list.push_back(std::move(op));
    }
  }
  if (shape.value_norm && !shape.foreign_keys)
    list.push_back(make(OperatorKind::norm, prefix + ".v_norm", key, key, TpSplit::heads));
  if (shape.rotary_dim > 0) {
    const std::int64_t rotated = (shape.heads + (shape.foreign_keys ? 0 : shape.kv_heads)) * shape.rotary_dim;
    list.push_back(make(OperatorKind::rotary, prefix + ".rotary", rotated, rotated, TpSplit::heads));
  }
  list.push_back(attention_core(prefix + ".core", shape));
  if (shape.sub_norm > 0) list.push_back(split_norm(prefix + ".sub_norm", query, shape.sub_norm));
  if (shape.gate > 0) list.push_back(activation(prefix + ".gated", query, query, TpSplit::heads));
  list.push_back(linear(prefix + ".out", query, shape.hidden, TpSplit::row, shape.out_bias));
}

void add_mlp(Operators& list, const std::string& prefix, const MlpShape& shape) {
  const std::int64_t width = shape.gated ? 2 * shape.ffn : shape.ffn;
  list.push_back(linear(prefix + (shape.gated ? "gate_up" : "up"), shape.hidden, width, TpSplit::column, shape.in_bias));
  list.back().parallel = shape.parallel;
  list.push_back(activation(prefix + "activation", width, shape.ffn, TpSplit::heads));
  list.back().parameters = list.back().parameters_unsplit = shape.activation_parameters;
  if (shape.sub_norm > 0) list.push_back(split_norm(prefix + "sub_norm", shape.ffn, shape.sub_norm));
  if (shape.inner_dropout) list.push_back(dropout(prefix + "inner_dropout", shape.ffn, TpSplit::heads));
  list.push_back(linear(prefix + "down", shape.ffn, shape.hidden, TpSplit::row, shape.out_bias));
}

void add_experts(Operators& list, const ExpertShape& shape) {
  const std::int64_t h = shape.hidden, width = shape.gated ? 2 * shape.ffn : shape.ffn;
  Operator router = expert_operator(OperatorKind::router, "mlp.router", h, shape.experts, TpSplit::none, shape);
  router.parameters = router.parameters_unsplit = times(h, shape.experts) + (shape.router_bias ? shape.experts : 0);
  list.push_back(std::move(router));
  list.push_back(expert_operator(OperatorKind::dispatch, "mlp.dispatch", h, h, TpSplit::none, shape));
  list.push_back(expert_linear(shape.gated ? "mlp.expert_gate_up" : "mlp.expert_up", h, width, TpSplit::column, shape));
  list.push_back(
      expert_operator(OperatorKind::expert_activation, "mlp.expert_activation", width, shape.ffn, TpSplit::heads, shape));
  list.push_back(expert_linear("mlp.expert_down", shape.ffn, h, TpSplit::row, shape));
  list.push_back(expert_operator(OperatorKind::combine, "mlp.combine", h, h, TpSplit::none, shape));
  if (shape.shared_ffn > 0) {
    if (shape.shared_gate) list.push_back(linear("mlp.shared_gate", h, 1, TpSplit::none, false));
    add_mlp(list, "mlp.shared_", {h, shape.shared_ffn, shape.gated, shape.bias, shape.bias, false});
    list.push_back(residual("mlp.shared_add", h));
  }
}

void add_token_embedding(Operators& list, std::int64_t vocabulary, std::int64_t width) {
  list.push_back(table("embed.token", vocabulary, width, TpSplit::vocab));
}

void add_extra_embedding(Operators& list, const std::string& name, std::int64_t rows, std::int64_t width) {
  list.push_back(table("embed." + name, rows, width, TpSplit::none));
  list.push_back(residual("embed.add_" + name, width));
}

void add_sound_convolutions(Operators& list, std::int64_t bins, std::int64_t width) {
  constexpr std::int64_t kTaps = 3;
  Operator first = linear("frames.conv1", times(2 * kTaps, bins), width, TpSplit::none, true);
  first.kind = OperatorKind::patch_embed;
  first.parameters = first.parameters_unsplit = times(kTaps * bins, width) + width;
  list.push_back(std::move(first));
  list.push_back(activation("frames.activation1", 2 * width, 2 * width, TpSplit::none));
  list.push_back(linear("frames.conv2", kTaps * width, width, TpSplit::none, true));
  list.push_back(activation("frames.activation2", width, width, TpSplit::none));
}

void add_logits(Operators& list, std::int64_t width, std::int64_t vocabulary, bool tied, bool bias) {
  Operator op = linear("head.logits", width, vocabulary, TpSplit::vocab, bias);
  if (tied) op.parameters = bias ? vocabulary : 0;
  list.push_back(std::move(op));
  list.push_back(cross_entropy(vocabulary, TpSplit::vocab));
}

void add_block(Operators& list, const BlockShape& shape, Operators mixer, Operators mlp) {
  const auto half = [&](const std::string& name, Operators& operators) {
    const bool first = shape.norms == NormPlace::parallel ? name == "attn" : shape.norms != NormPlace::after;
    if (first) list.push_back(norm(name + ".norm", shape.hidden, shape.norm_weights));
    std::move(operators.begin(), operators.end(), std::back_inserter(list));
    const bool last = shape.norms == NormPlace::sandwich || shape.norms == NormPlace::after;
    if (last) list.push_back(norm(name + ".post_norm", shape.hidden, shape.norm_weights));
    if (shape.dropout) list.push_back(dropout(name + ".dropout", shape.hidden));
    list.push_back(residual(name + ".residual", shape.hidden));
  };
  half("attn", mixer);
  half("mlp", mlp);
}

std::string name_in_stack(const char* stack, bool first, bool last) {
  return std::string(stack) + (first ? ".first" : "") + (last ? ".last" : "");
}

LayerKind make_kind(std::string name, LayerRole role, std::int64_t hidden, TokenStream stream) {
  LayerKind kind;
  kind.name = std::move(name);
  kind.role = role;
  kind.stream = stream;
  kind.hidden = hidden;
  return kind;
}

void LayerList::add(LayerKind kind) {
  auto& kinds = model_->kinds;
  const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return k.name == kind.name; });
  model_->layers.push_back(static_cast<std::int32_t>(same - kinds.begin()));
  if (same == kinds.end()) {
    kinds.push_back(std::move(kind));
  } else {
    ESPALIER_CHECK(*same == kind);  // a name identifies one kind
  }
}

}  // namespace espalier::model
