// SPDX-License-Identifier: Apache-2.0
// Reads decoders of the GPT kind: LayerNorm with bias, full multi-head attention, two-matrix MLP, biases, dropout.
//
//   block parameters with all biases = 4h² + 4h + 2hf + h + f + 4h  (= 12h² + 13h for f = 4h)
//   gpt2       learned positions
//   opt        learned positions (two rows beyond max_position_embeddings), optional post-norm, and projections between
//              embedding width and hidden width
//   bloom      ALiBi, LayerNorm after the embedding
//   gpt_neox   rotary, untied
#include <string>
#include <utility>
#include <vector>

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
  bool parallel = false;              ///< attention and MLP in parallel after one norm (gptj, falcon)
  bool head_bias = false;             ///< on the logits
  std::vector<std::int64_t> windows;  ///< per layer; empty = none (gpt_neo)
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

LayerKind block(const Gpt& g, std::int64_t window) {
  LayerKind kind = make_kind(window > 0 ? "decoder.sliding" : "decoder", LayerRole::block, g.hidden);
  auto& list = kind.operators;
  AttentionShape attention = g.attention;
  attention.window = window;
  if (g.norm_first) list.push_back(norm("attn.norm", g.hidden, g.norm_weights));
  add_attention(list, "attn", attention);
  if (g.hidden_dropout) list.push_back(dropout("attn.dropout", g.hidden));
  list.push_back(residual("attn.residual", g.hidden));
  if (!g.norm_first) list.push_back(norm("attn.norm", g.hidden, g.norm_weights));
  if (g.norm_first && !g.parallel) list.push_back(norm("mlp.norm", g.hidden, g.norm_weights));
  MlpShape mlp{g.hidden, g.ffn, false, g.mlp_bias, g.mlp_bias, g.inner_dropout};
  mlp.parallel = g.parallel;
  add_mlp(list, "mlp.", mlp);
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
  add_logits(list, width, g.vocabulary, g.tied, g.head_bias);
  return kind;
}

void build(const Gpt& g, Model& model) {
  model.vocabulary = g.vocabulary;
  model.tied_embeddings = g.tied;
  LayerList layers(model);
  layers.add(embedding(g));
  for (std::size_t i = 0; i < static_cast<std::size_t>(g.layers); ++i) layers.add(block(g, g.windows.empty() ? 0 : g.windows[i]));
  layers.add(head(g));
}

/// Reads sizes and heads under the family's names; head_dim = hidden / heads.
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
  // Parallel residual sums attention and MLP into one stream. Both forms read and write the same elements twice a
  // block.
  f.reader().ignore({"use_parallel_residual", "hidden_act", "attention_probs_dropout_prob",
                     "hidden_dropout_prob"});  // the last two are in hub files; no class reads them
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;
  model.context_length = context_length;
  build(g, model);
}

/// Reads gptj and codegen: one norm, attention without biases in parallel with an MLP with biases, rotary positions,
/// a bias on the logits.
void read_gptj(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"});
  g.ffn = f.integer_or({"n_inner", "intermediate_size"}, SizeLimits::width, 4 * g.hidden, "4 · n_embd");
  g.tied = f.flag("tie_word_embeddings", false);
  g.parallel = g.head_bias = true;
  g.attention.qkv_bias = g.attention.out_bias = false;
  g.attention.rotary_dim = f.integer_or({"rotary_dim"}, SizeLimits::head_dim, 64);
  if (f.ok() && g.attention.rotary_dim > g.attention.head_dim)
    f.fail("rotary_dim", g.attention.rotary_dim, "at most the size of a head");
  g.embedding_dropout = f.positive_rate({"embd_pdrop"}, 0);
  g.hidden_dropout = f.positive_rate({"resid_pdrop"}, 0);
  g.attention.score_dropout = f.positive_rate({"attn_pdrop"}, 0);
  model.context_length = f.integer_or({"n_positions", "n_ctx"}, SizeLimits::tokens, 2048);
  f.reader().ignore({"activation_function", "n_ctx", "rotary", "gradient_checkpointing", "use_parallel_residual"});
  if (!f.ok()) return;
  build(g, model);
}

/// Reads gpt_neo: no biases on q, k, v; layers with and without a window alternate (attention_types: [[["global",
/// "local"], 12]]).
void read_gpt_neo(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"hidden_size"}, {"num_layers", "num_hidden_layers"}, {"num_heads", "num_attention_heads"});
  g.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, 4 * g.hidden, "4 · hidden_size");
  g.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, 2048);
  g.tied = f.flag("tie_word_embeddings", true);
  g.attention.qkv_bias = false;
  const std::int64_t window = f.integer_or({"window_size"}, SizeLimits::tokens, 256);
  std::vector<std::string> kinds = per_layer_list(f, "attention_layers", g.layers, {"global", "local"});
  f.reader().ignore({"attention_types", "activation_function", "tokenizer_class"});
  for (std::int64_t i = 0; f.ok() && i < g.layers; ++i) {  // without a list they alternate, as in every published one
    const bool local = kinds.empty() ? i % 2 == 1 : kinds[static_cast<std::size_t>(i)] == "local";
    g.windows.push_back(local ? window : 0);
  }
  g.embedding_dropout = f.positive_rate({"embed_dropout"}, 0);
  g.hidden_dropout = f.positive_rate({"resid_dropout"}, 0);
  g.attention.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  if (!f.ok()) return;
  model.max_positions = g.positions;
  build(g, model);
}

/// Reads gpt_bigcode: GPT-2 with one key/value head.
void read_gpt_bigcode(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"});
  g.ffn = f.integer_or({"n_inner", "intermediate_size"}, SizeLimits::width, 4 * g.hidden, "4 · n_embd");
  g.positions = f.integer_or({"n_positions", "max_position_embeddings"}, SizeLimits::tokens, 1024);
  g.tied = f.flag("tie_word_embeddings", true);
  if (f.flag("multi_query", true)) g.attention.kv_heads = 1;
  g.embedding_dropout = f.positive_rate({"embd_pdrop"}, 0.1);
  g.hidden_dropout = f.positive_rate({"resid_pdrop"}, 0.1);
  g.attention.score_dropout = f.positive_rate({"attn_pdrop"}, 0.1);
  f.reader().ignore({"activation_function", "num_key_value_heads", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
                     "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
                     "validate_runner_input"});
  if (f.reader().optional_bool("add_cross_attention", false))
    f.fail("add_cross_attention", "true", "a decoder without cross-attention");
  if (!f.ok()) return;
  model.max_positions = g.positions;
  build(g, model);
}

/// Reads falcon: one norm and one key/value head (7B), or two norms of the same input and groups of heads (40B,
/// 180B). Biases depend on `bias`.
void read_falcon(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"hidden_size", "n_embed"}, {"num_hidden_layers", "n_layer"}, {"num_attention_heads", "n_head"});
  g.ffn = f.integer_or({"ffn_hidden_size"}, SizeLimits::width, 4 * g.hidden, "4 · hidden_size");
  g.tied = f.flag("tie_word_embeddings", true);
  const bool grouped = f.flag("new_decoder_architecture", false), one = f.flag("multi_query", true);
  const std::int64_t kv =
      f.integer_or({"num_kv_heads", "n_head_kv"}, SizeLimits::heads, g.attention.heads, "num_attention_heads");
  if (grouped) g.attention.kv_heads = kv;
  if (!grouped && one) g.attention.kv_heads = 1;
  f.require_divides("num_kv_heads", g.attention.kv_heads, "num_attention_heads", g.attention.heads);
  const std::int64_t norms = f.integer_or({"num_ln_in_parallel_attn"}, 2, 2, "two with the new architecture");
  const bool beside = f.flag("parallel_attn", true);
  g.parallel = grouped ? norms == 1 : beside;
  g.mlp_bias = g.attention.qkv_bias = g.attention.out_bias = f.flag("bias", false);
  if (!f.flag("alibi", false)) g.attention.rotary_dim = g.attention.head_dim;
  g.hidden_dropout = f.positive_rate({"hidden_dropout"}, 0);
  g.attention.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  f.reader().ignore({"activation", "apply_residual_connection_post_layernorm"});
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;
  model.context_length = context_length;
  build(g, model);
}

/// Reads mpt: ALiBi, norms without shift, no biases.
void read_mpt(Fields& f, Model& model) {
  Gpt g = read_sizes(f, {"d_model"}, {"n_layers"}, {"n_heads"});
  g.ffn = times(f.integer_or({"expansion_ratio"}, 1024, 4), g.hidden);
  g.tied = f.flag("tie_word_embeddings", true);
  const bool bare = f.flag("no_bias", true);
  if (!bare) f.fail("no_bias", "false", "true, as in mpt's class");
  g.norm_weights = 1;
  g.mlp_bias = g.attention.qkv_bias = g.attention.out_bias = false;
  g.embedding_dropout = f.positive_rate({"emb_pdrop"}, 0);
  g.hidden_dropout = f.positive_rate({"resid_pdrop"}, 0);
  base::Reader attention = f.reader().child("attn_config", false);
  const bool alibi = attention.optional_bool("alibi", true), normed = attention.optional_bool("qk_ln", false);
  const std::string type = attention.has("attn_type") ? attention.required_string("attn_type") : "multihead_attention";
  if (f.ok() && (!alibi || normed || type != "multihead_attention"))
    f.fail("attn_config", "attention that differs from MPT-7B and 30B",
           "alibi: true, qk_ln: false, attn_type: multihead_attention");
  f.reader().ignore({"max_seq_len", "learned_pos_emb", "init_device", "logit_scale", "embedding_fraction", "norm_type", "verbose",
                     "ffn_config", "init_config", "tokenizer_name", "use_pad_tok_in_ffn"});
  if (!f.ok()) return;
  build(g, model);
}

/// Reads xglm (computed positions) and biogpt (learned, with two additional rows), decoders of the fairseq kind.
void read_fairseq_decoder(Fields& f, Model& model) {
  const bool learned = model.family == "biogpt";
  Gpt g =
      read_sizes(f, {"hidden_size", "d_model"}, {"num_hidden_layers", "num_layers"}, {"num_attention_heads", "attention_heads"});
  g.ffn = f.integer({"intermediate_size", "ffn_dim"}, SizeLimits::width);
  const std::int64_t positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, learned ? 1024 : 2048);
  if (learned) g.positions = positions + 2;
  g.tied = f.flag("tie_word_embeddings", true);
  g.hidden_dropout = f.positive_rate({"hidden_dropout_prob", "dropout"}, 0.1);
  g.embedding_dropout = g.hidden_dropout;
  g.attention.score_dropout = f.positive_rate({"attention_probs_dropout_prob", "attention_dropout"}, 0.1);
  f.reader().ignore({"activation_function", "hidden_act", "activation_dropout", "layerdrop", "scale_embedding", "init_std"});
  if (f.reader().optional_bool("add_cross_attention", false))
    f.fail("add_cross_attention", "true", "a decoder without cross-attention");
  if (!f.ok()) return;
  if (learned) model.max_positions = positions;
  if (!learned) model.context_length = positions;
  build(g, model);
}

}  // namespace espalier::model
