// SPDX-License-Identifier: Apache-2.0
// Decoders of the GPT kind: LayerNorm with bias, full multi-head attention, two-matrix MLP, biases, dropout.
//
//   block parameters with all biases = 4h² + 4h + 2hf + h + f + 4h  (= 12h² + 13h for f = 4h)
//   gpt2: learned positions.  opt: learned positions (2 rows more than max_position_embeddings), optional post-norm and
//   projections between embedding width and hidden width.  bloom: ALiBi, LayerNorm after the embedding.  gpt_neox: rotary,
//   untied.
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Gpt {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  std::int64_t embedding_width = 0;  ///< 0 = hidden
  std::int64_t positions = 0;        ///< rows of the learned position table; 0 = none
  AttentionShape attention;
  bool tied = true, mlp_bias = true;
  bool embedding_norm = false;  ///< bloom
  bool norm_first = true;       ///< opt: do_layer_norm_before
  bool final_norm = true;
  int norm_weights = 2;  ///< weight vectors of a LayerNorm: scale and bias, or none
  bool embedding_dropout = false, hidden_dropout = false, inner_dropout = false;
};

LayerKind embedding(const Gpt& g) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, g.hidden);
  auto& list = kind.operators;
  const std::int64_t width = g.embedding_width > 0 ? g.embedding_width : g.hidden;
  add_token_embedding(list, g.vocabulary, width);
  if (width != g.hidden) list.push_back(linear("embed.project_in", width, g.hidden, TpSplit::none, false));
  if (g.positions > 0) add_extra_embedding(list, "position", g.positions, g.hidden);
  if (g.embedding_norm) list.push_back(norm("embed.norm", g.hidden, 2));
  if (g.embedding_dropout) list.push_back(dropout("embed.dropout", g.hidden));
  return kind;
}

LayerKind block(const Gpt& g) {
  LayerKind kind = make_kind("decoder", LayerRole::block, g.hidden);
  auto& list = kind.operators;
  if (g.norm_first) list.push_back(norm("attn.norm", g.hidden, g.norm_weights));
  add_attention(list, "attn", g.attention);
  if (g.hidden_dropout) list.push_back(dropout("attn.dropout", g.hidden));
  list.push_back(residual("attn.residual", g.hidden));
  if (!g.norm_first) list.push_back(norm("attn.norm", g.hidden, g.norm_weights));
  if (g.norm_first) list.push_back(norm("mlp.norm", g.hidden, g.norm_weights));
  add_mlp(list, "mlp.", {g.hidden, g.ffn, false, g.mlp_bias, g.mlp_bias, g.inner_dropout});
  if (g.hidden_dropout) list.push_back(dropout("mlp.dropout", g.hidden));
  list.push_back(residual("mlp.residual", g.hidden));
  if (!g.norm_first) list.push_back(norm("mlp.norm", g.hidden, g.norm_weights));
  return kind;
}

LayerKind head(const Gpt& g) {
  LayerKind kind = make_kind("head", LayerRole::head, g.hidden);
  auto& list = kind.operators;
  const std::int64_t width = g.embedding_width > 0 ? g.embedding_width : g.hidden;
  if (g.final_norm) list.push_back(norm("head.norm", g.hidden, g.norm_weights));
  if (width != g.hidden) list.push_back(linear("head.project_out", g.hidden, width, TpSplit::none, false));
  add_logits(list, width, g.vocabulary, g.tied);
  return kind;
}

void build(const Gpt& g, Model& model) {
  model.vocabulary = g.vocabulary;
  model.tied_embeddings = g.tied;
  LayerList layers(model);
  layers.add(embedding(g));
  for (std::int64_t i = 0; i < g.layers; ++i) layers.add(block(g));
  layers.add(head(g));
}

/// Sizes and heads under the family's names; head_dim = hidden / heads.
Gpt read_sizes(Fields& f, Names hidden, Names layers, Names heads) {
  Gpt g;
  g.hidden = f.integer(hidden, SizeLimits::width);
  g.layers = f.integer(layers, SizeLimits::layers);
  g.vocabulary = f.integer({"vocab_size"}, SizeLimits::vocabulary);
  g.attention.hidden = g.hidden;
  g.attention.heads = g.attention.kv_heads = f.integer(heads, SizeLimits::heads);
  f.require_divides(*heads.begin(), g.attention.heads, *hidden.begin(), g.hidden);
  g.attention.head_dim = g.hidden / g.attention.heads;
  g.attention.qkv_bias = g.attention.out_bias = true;
  return g;
}

}  // namespace

void read_gpt2(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"});
  g.ffn = f.integer_or({"n_inner", "intermediate_size"}, SizeLimits::width, 4 * g.hidden, "4 · n_embd");
  g.positions = f.integer_or({"n_positions", "max_position_embeddings", "n_ctx"}, SizeLimits::tokens, 1024);
  g.tied = f.flag("tie_word_embeddings", true);
  g.embedding_dropout = f.positive_rate({"embd_pdrop"}, 0.1);
  g.hidden_dropout = f.positive_rate({"resid_pdrop"}, 0.1);
  g.attention.score_dropout = f.positive_rate({"attn_pdrop"}, 0.1);
  f.reader().ignore({"activation_function", "n_ctx"});
  if (f.reader().optional_bool("add_cross_attention", false)) {
    f.fail("add_cross_attention", "true", "a decoder without cross-attention", "encoder-decoder models: use the t5 family");
  }
  if (!f.ok()) return;
  model.max_positions = g.positions;
  build(g, model);
}

void read_opt(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"hidden_size"}, {"num_hidden_layers"}, {"num_attention_heads"});
  g.ffn = f.integer({"ffn_dim", "intermediate_size"}, SizeLimits::width);
  const std::int64_t positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 2048);
  g.positions = positions + 2;  // the class shifts position ids by 2
  g.embedding_width = f.integer_or({"word_embed_proj_dim"}, SizeLimits::width, g.hidden, "hidden_size");
  g.tied = f.flag("tie_word_embeddings", true);
  g.norm_first = f.flag("do_layer_norm_before", true);
  const bool removed = f.reader().optional_bool("_remove_final_layer_norm", false);
  g.final_norm = g.norm_first && !removed;
  g.norm_weights = f.flag("layer_norm_elementwise_affine", true) ? 2 : 0;
  g.mlp_bias = g.attention.qkv_bias = g.attention.out_bias = f.flag("enable_bias", true);
  g.hidden_dropout = f.positive_rate({"dropout"}, 0.1);
  g.attention.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  f.reader().ignore({"activation_function", "layerdrop", "activation_dropout"});
  if (!f.ok()) return;
  model.max_positions = positions;
  build(g, model);
}

void read_bloom(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"hidden_size", "n_embed"}, {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"});
  g.ffn = 4 * g.hidden;
  g.embedding_norm = true;
  g.tied = f.flag("tie_word_embeddings", true);
  g.hidden_dropout = f.positive_rate({"hidden_dropout"}, 0);
  g.attention.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  f.reader().ignore({"apply_residual_connection_post_layernorm", "attention_softmax_in_fp32", "bias_dropout_fusion",
                     "hidden_dropout_prob", "num_attention_heads", "n_inner"});
  if (!f.ok()) return;
  build(g, model);
}

void read_gpt_neox(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"hidden_size"}, {"num_hidden_layers"}, {"num_attention_heads"});
  g.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  g.tied = f.flag("tie_word_embeddings", false);
  const double rotary = f.real({"rotary_pct", "partial_rotary_factor"}, 0, 1, 0.25);
  g.attention.rotary_dim = static_cast<std::int64_t>(rotary * static_cast<double>(g.attention.head_dim));
  g.attention.qkv_bias = g.attention.out_bias = f.flag("attention_bias", true);
  g.hidden_dropout = f.positive_rate({"hidden_dropout"}, 0);
  g.embedding_dropout = g.hidden_dropout;
  g.attention.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  // Parallel residual sums attention and MLP into one stream; both forms read and write the same elements twice a block.
  f.reader().ignore({"use_parallel_residual", "hidden_act", "attention_probs_dropout_prob",
                     "hidden_dropout_prob"});  // the last two stand in hub files; no class reads them
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;
  model.context_length = context_length;
  build(g, model);
}

}  // namespace espalier::model
