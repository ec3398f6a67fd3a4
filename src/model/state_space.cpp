// SPDX-License-Identifier: Apache-2.0
// Reads state-space models (mamba, mamba2, falcon_mamba, nemotron_h) and the mixers that hybrids take from them.
#include "model/state_space.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/family.h"

namespace espalier::model {

Operator causal_conv(std::string name, std::int64_t width, std::int64_t taps, bool bias) {
  Operator op = activation(std::move(name), width, width, TpSplit::heads);
  op.kind = OperatorKind::causal_conv;
  op.chunk = taps;
  op.parameters = times(width, taps + (bias ? 1 : 0));
  return op;
}

namespace {

constexpr std::int64_t kCheckpointedTokens = 2048;  ///< tokens between states kept by mamba's selective scan
/// Equals the chunk_size of the delta rule in flash-linear-attention and transformers.
constexpr std::int64_t kDeltaChunk = 64;

struct ScanSizes {
  std::int64_t heads = 0, groups = 0, states = 0, features = 0, chunk = 0, parameters = 0;
};
Operator scan(OperatorKind kind, std::string name, const ScanSizes& s) {
  const std::int64_t out = times(s.heads, s.features);
  Operator op = activation(std::move(name), 2 * times(s.groups, s.states) + out, out, TpSplit::heads);
  op.kind = kind;
  op.heads = static_cast<std::int32_t>(s.heads);
  op.kv_heads = static_cast<std::int32_t>(s.groups);
  op.qk_dim = static_cast<std::int32_t>(s.states);
  op.v_dim = static_cast<std::int32_t>(s.features);
  op.chunk = s.chunk;
  op.parameters = s.parameters;
  return op;
}

Operator inner_norm(std::string name, std::int64_t width, std::int64_t parameters, bool split) {
  Operator op = norm(std::move(name), width, 0);
  op.split = TpSplit::heads;
  op.parameters = parameters;
  op.parameters_unsplit = split ? 0 : parameters;
  return op;
}

struct Mamba {
  std::int64_t hidden = 0, inner = 0, states = 0, rank = 0, taps = 0;
  bool bias = false, conv_bias = true, norms = false;
};
Operators mamba_mixer(const Mamba& m) {
  const std::int64_t projected = m.rank + 2 * m.states;
  Operators list;
  list.push_back(linear("ssm.in", m.hidden, 2 * m.inner, TpSplit::column, m.bias));
  list.push_back(causal_conv("ssm.conv", m.inner, m.taps, m.conv_bias));
  list.push_back(linear("ssm.x", m.inner, projected, TpSplit::row, false));
  if (m.norms) list.push_back(norm("ssm.x_norm", projected, 1));
  list.push_back(linear("ssm.dt", m.rank, m.inner, TpSplit::column, true));
  list.push_back(scan(OperatorKind::scan, "ssm.scan",
                      {m.inner, m.inner, m.states, 1, kCheckpointedTokens, times(m.inner, m.states) + m.inner}));
  list.back().in = m.inner;
  list.push_back(activation("ssm.gate", 2 * m.inner, m.inner, TpSplit::heads));
  list.push_back(linear("ssm.out", m.inner, m.hidden, TpSplit::row, m.bias));
  return list;
}

/// Reads a rank; "auto" is hidden / 16, rounded up.
std::int64_t read_rank(Fields& f, std::string_view key, std::int64_t hidden) {
  const base::Node* node = f.reader().find(key);
  if (node != nullptr && node->kind == base::NodeKind::string) return (hidden + 15) / 16;
  return f.integer_or({key}, SizeLimits::width, (hidden + 15) / 16, "hidden_size / 16");
}

struct StateSpace {
  std::int64_t hidden = 0, layers = 0, vocabulary = 0;
  bool tied = false;
};
StateSpace read_sizes(Fields& f, bool tied) {
  StateSpace s;
  s.hidden = f.integer({"hidden_size", "d_model"}, SizeLimits::width);
  s.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  s.tied = f.flag("tie_word_embeddings", tied);
  return s;
}

/// Returns a block of norm, mixer and addition.
LayerKind block_of(std::string name, std::int64_t hidden, Operators mixer) {
  LayerKind kind = make_kind(std::move(name), LayerRole::block, hidden);
  kind.operators.push_back(norm("mixer.norm", hidden, 1));
  for (Operator& op : mixer) kind.operators.push_back(std::move(op));
  kind.operators.push_back(residual("mixer.residual", hidden));
  return kind;
}

void build(const StateSpace& s, const std::vector<LayerKind>& blocks, Model& model) {
  model.vocabulary = s.vocabulary;
  model.tied_embeddings = s.tied;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, s.hidden);
  add_token_embedding(embedding.operators, s.vocabulary, s.hidden);
  layers.add(std::move(embedding));
  for (const LayerKind& block : blocks) layers.add(block);
  LayerKind head = make_kind("head", LayerRole::head, s.hidden);
  head.operators.push_back(norm("head.norm", s.hidden, 1));
  add_logits(head.operators, s.hidden, s.vocabulary, s.tied);
  layers.add(std::move(head));
}

}  // namespace

Operators mamba2_mixer(const Mamba2Shape& m) {
  const std::int64_t inner = times(m.heads, m.features), conv = inner + 2 * times(m.groups, m.states);
  Operators list;
  list.push_back(linear("ssm.in", m.hidden, inner + conv + m.heads, TpSplit::column, m.bias));
  list.push_back(causal_conv("ssm.conv", conv, m.taps, m.conv_bias));
  list.push_back(scan(OperatorKind::chunked_scan, "ssm.scan", {m.heads, m.groups, m.states, m.features, m.chunk, 3 * m.heads}));
  list.push_back(activation("ssm.gate", 2 * inner, inner, TpSplit::heads));
  if (m.norm) list.push_back(inner_norm("ssm.norm", inner, inner, true));
  list.push_back(linear("ssm.out", inner, m.hidden, TpSplit::row, m.bias));
  return list;
}

void ignore_steps(Fields& f) {
  f.reader().ignore({"time_step_min",
                     "time_step_max",
                     "time_step_floor",
                     "time_step_limit",
                     "time_step_scale",
                     "time_step_init_scheme",
                     "rescale_prenorm_residual",
                     "residual_in_fp32",
                     "use_mambapy",
                     "use_mamba_kernels",
                     "use_associative_scan",
                     "hidden_act",
                     "num_logits_to_keep",
                     "mamba_hidden_act",
                     "mlp_hidden_act",
                     "mamba_ssm_cache_dtype",
                     "mixer_rms_eps",
                     "z_loss_coefficient",
                     "ssm_cfg",
                     "fused_add_norm",
                     "d_inner"});
}

Operators read_mamba2_mixer(Fields& f, std::int64_t hidden) {
  Mamba2Shape m;
  m.hidden = hidden;
  const std::int64_t expand = f.integer_or({"mamba_expand"}, 1024, 2);
  m.heads = f.integer_or({"mamba_n_heads"}, SizeLimits::heads, 128);
  const std::int64_t derived = std::max<std::int64_t>(times(expand, hidden) / m.heads, 1);
  const base::Node* width = f.reader().find("mamba_d_head");
  const bool automatic = width != nullptr && width->kind == base::NodeKind::string;
  m.features =
      automatic ? derived : f.integer_or({"mamba_d_head"}, SizeLimits::head_dim, derived, "mamba_expand · hidden_size / heads");
  m.groups = f.integer_or({"mamba_n_groups"}, SizeLimits::heads, 1);
  m.states = f.integer_or({"mamba_d_state"}, SizeLimits::head_dim, 256);
  m.taps = f.integer_or({"mamba_d_conv"}, 64, 4);
  m.chunk = f.integer_or({"mamba_chunk_size"}, 1 << 16, 256);
  m.bias = f.flag("mamba_proj_bias", false);
  m.conv_bias = f.flag("mamba_conv_bias", true);
  if (f.reader().has("mamba_rms_norm")) m.norm = f.flag("mamba_rms_norm", true);
  if (f.reader().has("mamba_d_ssm")) {  // falcon_h1
    const std::int64_t inner = f.integer({"mamba_d_ssm"}, SizeLimits::width);
    if (f.ok() && inner != times(m.heads, m.features)) f.fail("mamba_d_ssm", inner, "mamba_n_heads · mamba_d_head");
  }
  f.reader().ignore({"mamba_norm_before_gate", "mamba_use_mlp"});
  ignore_steps(f);
  f.require_divides("mamba_n_groups", m.groups, "mamba_n_heads", m.heads);
  return mamba2_mixer(m);
}

Operators read_mamba_mixer(Fields& f, std::int64_t hidden) {
  Mamba m;
  m.hidden = hidden;
  m.inner = times(f.integer_or({"mamba_expand"}, 1024, 2), hidden);
  m.states = f.integer_or({"mamba_d_state"}, SizeLimits::head_dim, 16);
  m.taps = f.integer_or({"mamba_d_conv"}, 64, 4);
  m.rank = read_rank(f, "mamba_dt_rank", hidden);
  m.bias = f.flag("mamba_proj_bias", false);
  m.conv_bias = f.flag("mamba_conv_bias", true);
  m.norms = true;
  ignore_steps(f);
  if (m.inner > SizeLimits::width) f.fail("mamba_expand", m.inner, "an inner width of at most 2^24");
  return f.ok() ? mamba_mixer(m) : Operators{};
}

Operators read_delta_mixer(Fields& f, std::int64_t hidden) {
  const std::int64_t key_heads = f.integer_or({"linear_num_key_heads"}, SizeLimits::heads, 16);
  const std::int64_t heads = f.integer_or({"linear_num_value_heads"}, SizeLimits::heads, 32);
  const std::int64_t k = f.integer_or({"linear_key_head_dim"}, SizeLimits::head_dim, 128);
  const std::int64_t v = f.integer_or({"linear_value_head_dim"}, SizeLimits::head_dim, 128);
  const std::int64_t taps = f.integer_or({"linear_conv_kernel_dim"}, 64, 4);
  f.require_divides("linear_num_key_heads", key_heads, "linear_num_value_heads", heads);
  const std::int64_t keys = times(key_heads, k), values = times(heads, v);
  Operators list;
  list.push_back(linear("delta.in", hidden, 2 * keys + 2 * values + 2 * heads, TpSplit::column, false));
  list.push_back(causal_conv("delta.conv", 2 * keys + values, taps, false));
  list.push_back(scan(OperatorKind::gated_delta, "delta.scan", {heads, key_heads, k, v, kDeltaChunk, 2 * heads}));
  list.push_back(activation("delta.gate", 2 * values, values, TpSplit::heads));
  list.push_back(inner_norm("delta.norm", values, v, false));
  list.push_back(linear("delta.out", values, hidden, TpSplit::row, false));
  return list;
}

Operators read_lightning_mixer(Fields& f, std::int64_t hidden) {
  const std::int64_t heads = f.integer({"num_attention_heads"}, SizeLimits::heads);
  const std::int64_t width = f.integer_or({"head_dim"}, SizeLimits::head_dim, std::max<std::int64_t>(hidden / heads, 1),
                                          "hidden_size / num_attention_heads");
  const std::int64_t inner = times(heads, width), block = f.integer_or({"block_size"}, 1 << 16, 256);
  f.reader().ignore({"full_attn_alpha_factor", "full_attn_beta_factor", "linear_attn_alpha_factor", "linear_attn_beta_factor",
                     "mlp_alpha_factor", "mlp_beta_factor"});
  Operators list;
  list.push_back(linear("lightning.gate", hidden, inner, TpSplit::column, false));
  list.push_back(linear("lightning.qkv", hidden, 3 * inner, TpSplit::column, false));
  list.push_back(activation("lightning.silu", 3 * inner, 3 * inner, TpSplit::heads));
  list.push_back(scan(OperatorKind::chunked_scan, "lightning.scan", {heads, heads, width, width, block, 0}));
  list.push_back(inner_norm("lightning.norm", inner, inner, true));
  list.push_back(activation("lightning.gated", inner, inner, TpSplit::heads));
  list.push_back(linear("lightning.out", inner, hidden, TpSplit::row, false));
  return list;
}

Operators read_conv_mixer(Fields& f, std::int64_t hidden) {
  const std::int64_t taps = f.integer_or({"conv_L_cache"}, 64, 3);
  const bool bias = f.flag("conv_bias", false);
  f.reader().ignore({"conv_dim", "conv_dim_out", "block_dim", "block_norm_eps", "conv_use_xavier_init", "block_use_swiglu",
                     "block_use_xavier_init", "norm_eps"});
  Operators list;
  list.push_back(linear("conv.in", hidden, 3 * hidden, TpSplit::column, bias));
  list.push_back(activation("conv.gate", 2 * hidden, hidden, TpSplit::heads));
  list.push_back(causal_conv("conv.conv", hidden, taps, bias));
  list.push_back(activation("conv.gated", 2 * hidden, hidden, TpSplit::heads));
  list.push_back(linear("conv.out", hidden, hidden, TpSplit::row, bias));
  return list;
}

/// Reads mamba and falcon_mamba, whose norms of B, C and dt have no weights.
void read_mamba(Fields& f, Model& model) {
  StateSpace s = read_sizes(f, true);
  s.layers = f.integer({"num_hidden_layers", "n_layer"}, SizeLimits::layers);
  Mamba m;
  m.hidden = s.hidden;
  const std::int64_t expand = f.integer_or({"expand"}, 1024, 2);
  m.inner = f.integer_or({"intermediate_size"}, SizeLimits::width, times(expand, s.hidden), "expand · hidden_size");
  m.states = f.integer_or({"state_size"}, SizeLimits::head_dim, 16);
  m.taps = f.integer_or({"conv_kernel"}, 64, 4);
  m.rank = read_rank(f, "time_step_rank", s.hidden);
  m.bias = f.flag("use_bias", false);
  m.conv_bias = f.flag("use_conv_bias", true);
  ignore_steps(f);
  if (!f.ok()) return;
  build(s, std::vector<LayerKind>(static_cast<std::size_t>(s.layers), block_of("mamba", s.hidden, mamba_mixer(m))), model);
}

void read_mamba2(Fields& f, Model& model) {
  StateSpace s = read_sizes(f, false);
  s.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  Mamba2Shape m;
  m.hidden = s.hidden;
  m.heads = f.integer_or({"num_heads"}, SizeLimits::heads, 128);
  m.features = f.integer_or({"head_dim"}, SizeLimits::head_dim, 64);
  m.groups = f.integer_or({"n_groups"}, SizeLimits::heads, 8);
  m.states = f.integer_or({"state_size"}, SizeLimits::head_dim, 128);
  m.taps = f.integer_or({"conv_kernel"}, 64, 4);
  m.chunk = f.integer_or({"chunk_size"}, 1 << 16, 256);
  m.bias = f.flag("use_bias", false);
  m.conv_bias = f.flag("use_conv_bias", true);
  f.reader().ignore({"expand", "time_step_rank", "intermediate_size", "norm_before_gate", "rms_norm"});
  ignore_steps(f);
  f.require_divides("n_groups", m.groups, "num_heads", m.heads);
  if (!f.ok()) return;
  build(s, std::vector<LayerKind>(static_cast<std::size_t>(s.layers), block_of("mamba2", s.hidden, mamba2_mixer(m))), model);
}

namespace {

/// Reads one word a layer, from layers_block_type or the letters of hybrid_override_pattern (M scan, * attention, -
/// MLP, E experts).
std::vector<std::string> read_blocks(Fields& f) {
  const base::Node* letters = f.reader().find("hybrid_override_pattern");
  const base::Node* words = f.reader().find("layers_block_type");
  std::vector<std::string> out;
  if (letters != nullptr && letters->kind == base::NodeKind::string && letters->text.size() <= SizeLimits::layers) {
    for (const char c : letters->text)
      out.push_back(c == 'M' ? "linear_attention" : c == '*' ? "full_attention" : c == '-' ? "mlp" : c == 'E' ? "moe" : "?");
  } else if (words != nullptr && words->kind == base::NodeKind::sequence && words->items.size() <= SizeLimits::layers) {
    for (const base::Node& item : words->items)
      out.push_back(item.text == "mamba" ? "linear_attention" : item.text == "attention" ? "full_attention" : item.text);
  }
  f.reader().ignore({"num_hidden_layers", "mtp_hybrid_override_pattern", "mtp_layers_block_type"});
  for (const std::string& word : out)
    if (word != "linear_attention" && word != "full_attention" && word != "mlp" && word != "moe")
      f.fail("layers_block_type", "entry \"" + word.substr(0, 40) + "\"", "linear_attention, full_attention, mlp or moe");
  if (out.empty()) f.fail("layers_block_type", "no list", "one kind of block per layer, or hybrid_override_pattern");
  return out;
}

ExpertShape read_hybrid_experts(Fields& f, std::int64_t hidden) {
  ExpertShape e;
  e.hidden = hidden;
  e.gated = false;
  e.experts = f.integer_or({"n_routed_experts"}, SizeLimits::experts, 8);
  e.top_k = f.integer_or({"num_experts_per_tok"}, SizeLimits::experts, 2);
  e.ffn = f.integer({"moe_intermediate_size"}, SizeLimits::width);
  e.shared_ffn = times(f.integer_or({"n_shared_experts"}, 1024, 1, kFamilyDefault, 0),
                       f.integer_or({"moe_shared_expert_intermediate_size"}, SizeLimits::width, e.ffn, "moe_intermediate_size"));
  if (e.top_k > e.experts) f.fail("num_experts_per_tok", e.top_k, "at most n_routed_experts = " + std::to_string(e.experts));
  return e;
}

}  // namespace

/// Reads Nemotron-H: blocks of one mixer each, Mamba-2, attention without positions, an MLP or a mixture of experts.
void read_nemotron_h(Fields& f, Model& model) {
  const StateSpace s = read_sizes(f, false);
  const auto words = read_blocks(f);
  Mamba2Shape m;
  m.hidden = s.hidden;
  m.heads = f.integer_or({"mamba_num_heads"}, SizeLimits::heads, 128);
  m.features = f.integer_or({"mamba_head_dim"}, SizeLimits::head_dim, 64);
  m.groups = f.integer_or({"n_groups"}, SizeLimits::heads, 8);
  m.states = f.integer_or({"ssm_state_size"}, SizeLimits::head_dim, 128);
  m.taps = f.integer_or({"conv_kernel"}, 64, 4);
  m.chunk = f.integer_or({"chunk_size"}, 1 << 16, 128);
  m.bias = f.flag("mamba_proj_bias", false) || f.flag("use_bias", false);
  m.conv_bias = f.flag("use_conv_bias", true);
  AttentionShape a;
  a.hidden = s.hidden;
  a.heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, 32);
  a.kv_heads = f.integer_or({"num_key_value_heads"}, SizeLimits::heads, 8);
  a.head_dim = f.integer_or({"head_dim", "attention_head_dim"}, SizeLimits::head_dim, 128);
  a.qkv_bias = a.out_bias = f.flag("attention_bias", false);
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  f.require_divides("num_key_value_heads", a.kv_heads, "num_attention_heads", a.heads);
  f.require_divides("n_groups", m.groups, "mamba_num_heads", m.heads);
  const std::int64_t ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  const bool mlp_bias = f.flag("mlp_bias", false);
  const bool has_experts = std::find(words.begin(), words.end(), "moe") != words.end();
  const ExpertShape experts = has_experts ? read_hybrid_experts(f, s.hidden) : ExpertShape{};
  const std::int64_t modules = f.integer_or({"num_nextn_predict_layers"}, SizeLimits::layers, 0, "no multi-token prediction", 0);
  if (f.reader().has("moe_latent_size")) f.fail("moe_latent_size", "a latent width", "experts with the model's width");
  if (modules > 0) {
    f.note(ModelNote::Kind::left_out, "num_nextn_predict_layers",
           "num_nextn_predict_layers = " + std::to_string(modules) + ": multi-token prediction is neither counted nor planned");
  }
  read_routing_groups(f);
  ignore_steps(f);
  f.reader().ignore({"expand", "sliding_window", "n_routed_experts", "n_shared_experts", "moe_intermediate_size",
                     "moe_shared_expert_intermediate_size", "num_experts_per_tok", "norm_topk_prob", "routed_scaling_factor",
                     "moe_shared_expert_overlap", "hidden_dropout"});
  if (!f.ok()) return;
  std::vector<LayerKind> blocks;
  for (const std::string& word : words) {
    Operators mixer;
    if (word == "linear_attention") mixer = mamba2_mixer(m);
    if (word == "full_attention") add_attention(mixer, "attn", a);
    if (word == "mlp") add_mlp(mixer, "mlp.", {s.hidden, ffn, false, mlp_bias, mlp_bias, false});
    if (word == "moe") add_experts(mixer, experts);
    blocks.push_back(block_of(word == "linear_attention" ? "mamba2"
                              : word == "full_attention" ? "attention"
                                                         : word,
                              s.hidden, std::move(mixer)));
  }
  build(s, blocks, model);
}

}  // namespace espalier::model
