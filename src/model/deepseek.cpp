// SPDX-License-Identifier: Apache-2.0
// Reads DeepSeek-V3 (DeepSeek-AI 2024, arXiv 2412.19437): multi-head latent attention and mixture of experts with
// shared experts.
//
//   MLA: q = q_b(norm(q_a(x)))  or q(x) without q_lora_rank;  c, k_rope = kv_a(x);  k_nope, v = kv_b(norm(c)).
//        Shapes: q_a [h, r_q], q_b [r_q, H(n + p)], kv_a [h, r_kv + p], kv_b [r_kv, H(n + v)], out [H·v, h]
//        n qk_nope_head_dim, p qk_rope_head_dim, v v_head_dim. After kv_b every head has its own keys, so
//        num_key_value_heads has no effect.
//   Under tensor parallelism q_a and kv_a are replicated, q_b and kv_b split by heads.
//   Layer i is a mixture of experts iff i ≥ first_k_dense_replace and i mod moe_layer_freq = 0.
//   The router's correction bias is set by a rule, not by gradients, and is no parameter here. Modules of multi-token
//   prediction are in multi_token_prediction.cpp.
//   V3.2 (sparse attention): indexer q [r_q, H_i·d_i], k [h, d_i], weights [h, H_i], LayerNorm d_i.
#include <string>
#include <vector>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Latent {
  std::int64_t hidden = 0, heads = 0, q_rank = 0, kv_rank = 0, rope = 0, nope = 0, value = 0;
  bool bias = false, score_dropout = false;
  std::int64_t index_heads = 0, index_dim = 0, index_top = 0;  ///< V3.2's indexer; 0 heads: attention to everything
};

struct DeepSeek {
  std::int64_t hidden = 0, layers = 0, ffn = 0, vocabulary = 0, dense_layers = 0, moe_every = 1, mtp = 0;
  bool tied = false;
  Latent attention;
  ExpertShape experts;
};

/// Adds the indexer of DeepSeek-V3.2. It scores every earlier token, and attention reads the best `index_top` of
/// them. As with a window, the first queries see fewer. Its weights are whole on every rank of a tensor group; its
/// scores are products like attention's. These projections are parallel to those of queries and keys that read the
/// same tensors.
void add_indexer(Operators& list, const Latent& a) {
  if (a.index_heads == 0) return;
  const std::int64_t from = a.q_rank > 0 ? a.q_rank : a.hidden;
  list.push_back(linear("index.q", from, a.index_heads * a.index_dim, TpSplit::none, false));
  list.push_back(linear("index.weights", a.hidden, a.index_heads, TpSplit::none, false));
  list.push_back(linear("index.k", a.hidden, a.index_dim, TpSplit::none, false));
}

void add_index_scores(Operators& list, const Latent& a) {
  if (a.index_heads == 0) return;
  list.push_back(norm("index.k_norm", a.index_dim, 2));
  Operator core = attention_core("index.core", {a.hidden, a.index_heads, 1, a.index_dim});
  core.in = (a.index_heads + 1) * a.index_dim;
  core.out = a.index_heads;
  core.v_dim = 0;
  list.push_back(core);
}

void add_latent_attention(Operators& list, const Latent& a) {
  const std::int64_t qk = a.nope + a.rope;
  if (a.q_rank > 0) {
    list.push_back(linear("attn.q_a", a.hidden, a.q_rank, TpSplit::none, a.bias));
    list.push_back(norm("attn.q_a_norm", a.q_rank, 1));
    list.push_back(linear("attn.q_b", a.q_rank, a.heads * qk, TpSplit::column, false));
  } else {
    list.push_back(linear("attn.q", a.hidden, a.heads * qk, TpSplit::column, false));
  }
  add_indexer(list, a);
  list.push_back(linear("attn.kv_a", a.hidden, a.kv_rank + a.rope, TpSplit::none, a.bias));
  list.push_back(norm("attn.kv_a_norm", a.kv_rank, 1));
  list.push_back(linear("attn.kv_b", a.kv_rank, a.heads * (a.nope + a.value), TpSplit::column, false));
  Operator rotary;
  rotary.kind = OperatorKind::rotary;
  rotary.name = "attn.rotary";
  rotary.in = rotary.out = (a.heads + 1) * a.rope;  // all heads share the rotated key part
  rotary.split = TpSplit::heads;
  list.push_back(rotary);
  Operator core = attention_core("attn.core", {a.hidden, a.heads, a.heads, qk, false, false, 0, false, 0, true, a.score_dropout});
  core.in = a.heads * (2 * qk + a.value);
  core.out = a.heads * a.value;
  core.v_dim = static_cast<std::int32_t>(a.value);
  core.window = a.index_heads > 0 ? a.index_top : 0;
  add_index_scores(list, a);
  list.push_back(core);
  list.push_back(linear("attn.out", a.heads * a.value, a.hidden, TpSplit::row, a.bias));
}

LayerKind block(const DeepSeek& d, bool sparse) {
  LayerKind kind;
  kind.name = sparse ? "decoder.moe" : "decoder";
  kind.hidden = d.hidden;
  auto& list = kind.operators;
  list.push_back(norm("attn.norm", d.hidden, 1));
  add_latent_attention(list, d.attention);
  list.push_back(residual("attn.residual", d.hidden));
  list.push_back(norm("mlp.norm", d.hidden, 1));
  if (sparse) {
    add_experts(list, d.experts);
  } else {
    add_mlp(list, "mlp.", {d.hidden, d.ffn, true, false, false, false});
  }
  list.push_back(residual("mlp.residual", d.hidden));
  return kind;
}

/// Holds the values that the configuration classes assume if a key is absent.
struct Defaults {
  std::int64_t dense_layers = 3, experts = 256, top_k = 8, shared = 1;  ///< experts = 0: a dense family
  std::int64_t kv_rank = 512, rope = 64, nope = 128, value = 128;
  bool tied = false, indexer = false;
};

Latent read_latent(Fields& f, std::int64_t hidden, const Defaults& absent) {
  Latent a;
  a.hidden = hidden;
  a.heads = f.integer({"num_attention_heads"}, SizeLimits::heads);
  a.q_rank = f.integer_nullable({"q_lora_rank"}, SizeLimits::width, 1536, 0, "queries are not compressed");
  a.kv_rank = f.integer_or({"kv_lora_rank"}, SizeLimits::width, absent.kv_rank);
  a.rope = f.integer_or({"qk_rope_head_dim"}, SizeLimits::head_dim, absent.rope);
  a.nope = f.integer_or({"qk_nope_head_dim"}, SizeLimits::head_dim, absent.nope);
  a.value = f.integer_or({"v_head_dim"}, SizeLimits::head_dim, absent.value);
  a.bias = f.flag("attention_bias", false);
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  if (absent.indexer) {
    a.index_heads = f.integer_or({"index_n_heads"}, SizeLimits::heads, 64);
    a.index_dim = f.integer_or({"index_head_dim"}, SizeLimits::head_dim, 128);
    a.index_top = f.integer_or({"index_topk"}, SizeLimits::tokens, 2048);
    (void)per_layer_list(f, "layer_types", f.integer({"num_hidden_layers"}, SizeLimits::layers), {"indexed_attention"});
  }
  return a;
}

ExpertShape read_experts(Fields& f, std::int64_t hidden, const Defaults& absent) {
  ExpertShape e;
  e.hidden = hidden;
  e.ffn = f.integer_or({"moe_intermediate_size"}, SizeLimits::width, 2048);
  e.experts = f.integer_or({"n_routed_experts", "num_local_experts"}, SizeLimits::experts, absent.experts);
  e.top_k = f.integer_or({"num_experts_per_tok"}, SizeLimits::experts, absent.top_k);
  e.shared_ffn = times(e.ffn, f.integer_or({"n_shared_experts"}, 1024, absent.shared, kFamilyDefault, 0));
  if (e.top_k > e.experts) f.fail("num_experts_per_tok", e.top_k, "at most n_routed_experts = " + std::to_string(e.experts));
  return e;
}

/// Returns which layers are mixtures of experts, by a list if there is one.
std::vector<bool> sparse_layers(Fields& f, const DeepSeek& d) {
  const auto types = per_layer_list(f, "mlp_layer_types", d.layers, {"dense", "sparse"});
  std::vector<bool> sparse(static_cast<std::size_t>(d.layers), false);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool listed = types.empty() ? i >= d.dense_layers && i % d.moe_every == 0 : types[at] == "sparse";
    sparse[at] = d.experts.experts > 0 && listed;
  }
  return sparse;
}

void read(Fields& f, Model& model, const Defaults& absent) {
  DeepSeek d;
  d.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  d.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  d.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  d.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  d.dense_layers = f.integer_or({"first_k_dense_replace"}, SizeLimits::layers, absent.dense_layers, kFamilyDefault, 0);
  d.moe_every = f.integer_or({"moe_layer_freq"}, SizeLimits::layers, 1, "every layer after the dense ones");
  d.mtp = f.integer_or({"num_nextn_predict_layers"}, SizeLimits::prediction, 0, "no multi-token prediction", 0);
  d.tied = f.flag("tie_word_embeddings", absent.tied);
  d.attention = read_latent(f, d.hidden, absent);
  if (absent.experts > 0) d.experts = read_experts(f, d.hidden, absent);
  const auto sparse = sparse_layers(f, d);
  f.reader().ignore({"num_key_value_heads", "head_dim", "qk_head_dim", "hidden_act", "topk_method", "scoring_func",
                     "norm_topk_prob", "routed_scaling_factor", "aux_loss_alpha", "seq_aux", "ep_size", "rope_interleave",
                     "scale_emb", "scale_depth", "dim_model_base", "mlp_bias"});
  read_routing_groups(f);
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;

  model.context_length = context_length;
  model.vocabulary = d.vocabulary;
  model.tied_embeddings = d.tied;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, d.hidden);
  add_token_embedding(embedding.operators, d.vocabulary, d.hidden);
  layers.add(std::move(embedding));
  for (const bool mixture : sparse) layers.add(block(d, mixture));
  LayerKind head = make_kind("head", LayerRole::head, d.hidden);
  head.operators.push_back(norm("head.norm", d.hidden, 1));
  add_logits(head.operators, d.hidden, d.vocabulary, d.tied);
  layers.add(std::move(head));

  add_prediction(model, d.mtp, block(d, absent.experts > 0));
}

}  // namespace

void read_deepseek_v2(Fields& f, Model& model) { read(f, model, {.dense_layers = 0, .experts = 64, .shared = 2}); }
void read_deepseek_v3(Fields& f, Model& model) { read(f, model, {}); }
void read_deepseek_v32(Fields& f, Model& model) { read(f, model, {.indexer = true}); }
/// Reads latent attention with a plain MLP (minicpm3, youtu).
void read_latent_dense(Fields& f, Model& model) {
  const bool minicpm = model.family == "minicpm3";
  Defaults absent{.dense_layers = 0, .experts = 0, .tied = true};
  if (minicpm) absent = {.dense_layers = 0, .experts = 0, .kv_rank = 256, .rope = 32, .nope = 64, .value = 64, .tied = true};
  read(f, model, absent);
}

void read_routing_groups(Fields& f) {
  const std::int64_t groups = f.reader().optional_int("n_group", 0, SizeLimits::experts, 1);
  const std::int64_t chosen = f.reader().optional_int("topk_group", 0, SizeLimits::experts, groups);
  if (!f.ok() || groups <= 1 || chosen >= groups) return;
  f.note(ModelNote::Kind::left_out, "n_group",
         "n_group = " + std::to_string(groups) + ", topk_group = " + std::to_string(chosen) +
             ": routing limited to some groups of experts is not modelled; a token may reach any expert");
}

}  // namespace espalier::model
