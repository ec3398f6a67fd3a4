// SPDX-License-Identifier: Apache-2.0
// Decoders of the llama kind: token embedding, then blocks of RMSNorm, grouped-query attention with rotary positions, RMSNorm,
// gated MLP or mixture of experts; final RMSNorm, logits. Families differ in the switches of Traits.
//
//   dense block parameters = h·(H + 2·KV)·d + H·d·h + 3·h·f + norms (+ biases)
//   MoE block              = attention + h·E + E·3·h·f
//   h hidden, H heads, KV key/value heads, d head_dim, f feed-forward width (of one expert), E experts
#include <algorithm>
#include <string>

#include "model/family.h"

namespace espalier::model {
namespace {

enum class Windows {
  none,       ///< full attention everywhere
  all,        ///< `sliding_window` on every layer, null = off (mistral, mixtral, phi3)
  qwen,       ///< off unless `use_sliding_window`; then from layer `max_window_layers` on
  alternate,  ///< every `sliding_window_pattern`-th layer is full, the others slide (gemma2, gemma3)
};

/// What the architecture fixes, and what the configuration class assumes when a key is absent.
struct Traits {
  std::int64_t kv_heads = 0;        ///< absent num_key_value_heads; 0 = num_attention_heads
  std::int64_t head_dim = 0;        ///< absent head_dim; 0 = hidden_size / num_attention_heads
  std::int64_t heads = 0;           ///< absent num_attention_heads; 0 = must be given
  std::int64_t vocabulary = 0;      ///< absent vocab_size; 0 = must be given
  bool tied = false;                ///< absent tie_word_embeddings
  bool attention_bias_key = false;  ///< `attention_bias` puts biases on q, k, v and o
  bool qkv_bias = false;            ///< always biases on q, k, v, none on o (qwen2)
  bool mlp_bias_key = false;
  bool qk_norm = false;               ///< RMSNorm on each head's query and key
  bool sandwich_norms = false;        ///< norms after attention and MLP too (gemma2, gemma3)
  bool softcap = false;               ///< absent final_logit_softcapping: tanh on the logits
  bool partial_rotary = false;        ///< `partial_rotary_factor`
  bool residual_dropout_key = false;  ///< `resid_pdrop` (phi3)
  Windows windows = Windows::none;
  std::int64_t window = 4096;  ///< absent sliding_window where it is on
  std::int64_t pattern = 2;
  std::string_view experts_key;         ///< number of experts; empty = dense family
  std::int64_t experts = 0, top_k = 0;  ///< class defaults
};

struct Decoder {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  bool tied = false, mlp_bias = false;
  bool dropout = false;  ///< after attention and MLP
  AttentionShape attention;
  std::vector<std::int64_t> windows;  ///< per layer; 0 = whole sequence
  std::vector<bool> sparse;           ///< per layer: mixture of experts?
  ExpertShape experts;
};

AttentionShape read_attention(Fields& f, const Traits& t, std::int64_t hidden) {
  AttentionShape a;
  a.hidden = hidden;
  a.heads = t.heads > 0 ? f.integer_or({"num_attention_heads", "n_head", "num_heads"}, SizeLimits::heads, t.heads)
                        : f.integer({"num_attention_heads", "n_head", "num_heads"}, SizeLimits::heads);
  a.kv_heads = f.integer_nullable({"num_key_value_heads"}, SizeLimits::heads, t.kv_heads > 0 ? t.kv_heads : a.heads, a.heads,
                                  "num_attention_heads: no grouped queries");
  f.require_divides("num_key_value_heads", a.kv_heads, "num_attention_heads", a.heads);
  const std::int64_t derived = std::max<std::int64_t>(hidden / a.heads, 1);
  a.head_dim = f.integer_nullable({"head_dim"}, SizeLimits::head_dim, t.head_dim > 0 ? t.head_dim : derived, derived,
                                  "hidden_size / num_attention_heads");
  const bool from_hidden = f.reader().find("head_dim") == nullptr ? t.head_dim == 0 : !f.reader().has("head_dim");
  if (from_hidden) f.require_divides("num_attention_heads", a.heads, "hidden_size", hidden);
  a.qkv_bias = t.qkv_bias;
  if (t.attention_bias_key) a.qkv_bias = a.out_bias = f.flag("attention_bias", false);
  a.qk_norm = t.qk_norm;
  a.rotary_dim = a.head_dim;
  if (t.partial_rotary) {
    const double fraction = f.real({"partial_rotary_factor"}, 0, 1, 1);
    a.rotary_dim = static_cast<std::int64_t>(fraction * static_cast<double>(a.head_dim));
  }
  return a;
}

/// A window that the family's class does not read (llama), or that its switch turns off (qwen: rightly nothing to say).
void read_unused_window(Fields& f, const Traits& t) {
  const base::Node* window = f.reader().find("sliding_window");
  if (t.windows == Windows::none && window != nullptr && in_use(*window)) {
    f.note(ModelNote::Kind::left_out, "sliding_window",
           "sliding_window = " + window->text.substr(0, 20) +
               " is not read for this family: every layer attends to the whole sequence");
  }
}

/// The window of each layer; an explicit layer_types list wins over the family's rule.
std::vector<std::int64_t> read_windows(Fields& f, const Traits& t, std::int64_t layers) {
  std::int64_t window = 0;
  if (t.windows == Windows::alternate) {
    window = f.integer_or({"sliding_window"}, SizeLimits::tokens, t.window);
  } else if (t.windows == Windows::all || (t.windows == Windows::qwen && f.flag("use_sliding_window", false))) {
    window = f.integer_nullable({"sliding_window"}, SizeLimits::tokens, t.window, 0, "sliding window off", 0);
  } else {
    read_unused_window(f, t);
  }
  auto windows = windows_of_layer_types(f, layers, window);
  const std::int64_t first = t.windows == Windows::qwen && window > 0
                                 ? f.integer_or({"max_window_layers"}, SizeLimits::layers, layers, "all layers full", 0)
                                 : 0;
  const std::int64_t pattern =
      t.windows == Windows::alternate && windows.empty()
          ? f.integer_or({"sliding_window_pattern", "_sliding_window_pattern"}, SizeLimits::layers, t.pattern)
          : 1;
  f.reader().ignore({"max_window_layers", "sliding_window_pattern", "_sliding_window_pattern", "sliding_window_size"});
  if (!windows.empty() || !f.ok()) return windows;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool slides = t.windows == Windows::alternate ? (i + 1) % pattern != 0 : i >= first;
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

/// Which layers are mixtures of experts (qwen3_moe: decoder_sparse_step and mlp_only_layers; mixtral: all).
std::vector<bool> read_sparse_layers(Fields& f, const Traits& t, std::int64_t layers, std::int64_t experts) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), experts > 0);
  if (t.experts_key != "num_experts") return sparse;
  const std::int64_t step = f.integer_or({"decoder_sparse_step"}, SizeLimits::layers, 1, "every layer");
  const auto dense = f.reader().optional_int_list("mlp_only_layers", 0, SizeLimits::layers);
  const auto types = per_layer_list(f, "mlp_layer_types", layers, {"dense", "sparse"});
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!types.empty()) {
      sparse[at] = experts > 0 && types[at] == "sparse";
    } else {
      sparse[at] = experts > 0 && (i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end();
    }
  }
  return sparse;
}

void read_experts(Fields& f, const Traits& t, Decoder& d) {
  d.experts.hidden = d.hidden;
  d.sparse.assign(static_cast<std::size_t>(d.layers), false);
  if (t.experts_key.empty()) return;
  const std::string_view other = t.experts_key == "num_experts" ? "num_local_experts" : "num_experts";
  d.experts.experts = f.integer_or({t.experts_key, other}, SizeLimits::experts, t.experts, kFamilyDefault, 0);
  d.experts.top_k = f.integer_or({"num_experts_per_tok", "num_experts_per_token"}, SizeLimits::experts, t.top_k);
  // mixtral's intermediate_size is that of one expert; qwen3_moe has both.
  d.experts.ffn = t.experts_key == "num_experts" ? f.integer({"moe_intermediate_size"}, SizeLimits::width) : d.ffn;
  d.sparse = read_sparse_layers(f, t, d.layers, d.experts.experts);
  if (d.experts.experts > 0 && d.experts.top_k > d.experts.experts) {
    f.fail("num_experts_per_tok", d.experts.top_k, "at most the number of experts, " + std::to_string(d.experts.experts));
  }
}

LayerKind block(const Decoder& d, const Traits& t, std::size_t i) {
  LayerKind kind;
  kind.name = "decoder";
  if (d.sparse[i]) kind.name += ".moe";
  if (d.windows[i] > 0) kind.name += ".sliding";
  kind.hidden = d.hidden;
  AttentionShape attention = d.attention;
  attention.window = d.windows[i];
  auto& list = kind.operators;
  list.push_back(norm("attn.norm", d.hidden, 1));
  add_attention(list, "attn", attention);
  if (t.sandwich_norms) list.push_back(norm("attn.post_norm", d.hidden, 1));
  if (d.dropout) list.push_back(dropout("attn.dropout", d.hidden));
  list.push_back(residual("attn.residual", d.hidden));
  list.push_back(norm("mlp.norm", d.hidden, 1));
  if (d.sparse[i]) {
    add_experts(list, d.experts);
  } else {
    add_mlp(list, "mlp.", {d.hidden, d.ffn, true, d.mlp_bias, d.mlp_bias, false});
  }
  if (t.sandwich_norms) list.push_back(norm("mlp.post_norm", d.hidden, 1));
  if (d.dropout) list.push_back(dropout("mlp.dropout", d.hidden));
  list.push_back(residual("mlp.residual", d.hidden));
  return kind;
}

LayerKind embedding(const Decoder& d) {
  LayerKind kind;
  kind.name = "embedding";
  kind.role = LayerRole::embedding;
  kind.hidden = d.hidden;
  add_token_embedding(kind.operators, d.vocabulary, d.hidden);
  return kind;
}

LayerKind head(const Decoder& d, bool softcap) {
  LayerKind kind;
  kind.name = "head";
  kind.role = LayerRole::head;
  kind.hidden = d.hidden;
  kind.operators.push_back(norm("head.norm", d.hidden, 1));
  add_logits(kind.operators, d.hidden, d.vocabulary, d.tied);
  if (softcap) {  // between logits and loss
    kind.operators.insert(kind.operators.end() - 1, activation("head.softcap", d.vocabulary, d.vocabulary, TpSplit::vocab));
  }
  return kind;
}

void read(Fields& f, Model& model, const Traits& t) {
  Decoder d;
  d.hidden = f.integer({"hidden_size", "n_embd", "d_model"}, SizeLimits::width);
  d.layers = f.integer({"num_hidden_layers", "n_layer", "num_layers"}, SizeLimits::layers);
  d.ffn = f.integer({"intermediate_size", "ffn_dim"}, SizeLimits::width);
  d.vocabulary = t.vocabulary > 0 ? f.integer_or({"vocab_size"}, SizeLimits::vocabulary, t.vocabulary)
                                  : f.integer({"vocab_size"}, SizeLimits::vocabulary);
  d.tied = f.flag("tie_word_embeddings", t.tied);
  d.attention = read_attention(f, t, d.hidden);
  d.mlp_bias = t.mlp_bias_key && f.flag("mlp_bias", false);
  d.windows = read_windows(f, t, d.layers);
  read_experts(f, t, d);
  const bool softcap =
      f.reader().find("final_logit_softcapping") == nullptr ? t.softcap : f.reader().has("final_logit_softcapping");
  if (f.positive_rate({"attention_dropout"}, 0)) d.attention.score_dropout = true;
  d.dropout = t.residual_dropout_key && f.positive_rate({"resid_pdrop"}, 0);
  if (const base::Node* bias = f.reader().find("attention_bias"); bias != nullptr && in_use(*bias) && !t.attention_bias_key) {
    f.note(ModelNote::Kind::ignored, "attention_bias",
           "attention_bias is not read for this family: its biases are those of its class");
  }
  f.reader().ignore({"hidden_act", "hidden_activation", "attn_logit_softcapping", "query_pre_attn_scalar", "norm_topk_prob",
                     "router_jitter_noise", "embd_pdrop"});
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;

  model.context_length = context_length;
  model.vocabulary = d.vocabulary;
  model.tied_embeddings = d.tied;
  LayerList layers(model);
  layers.add(embedding(d));
  for (std::size_t i = 0; i < static_cast<std::size_t>(d.layers); ++i) layers.add(block(d, t, i));
  layers.add(head(d, softcap));
}

Traits gemma_traits(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t vocabulary) {
  Traits t;
  t.heads = heads;
  t.kv_heads = kv_heads;
  t.head_dim = head_dim;
  t.vocabulary = vocabulary;
  t.tied = true;
  t.attention_bias_key = true;
  return t;
}

}  // namespace

void read_llama(Fields& f, Model& model) {
  Traits t;
  t.attention_bias_key = t.mlp_bias_key = true;
  read(f, model, t);
}

void read_mistral(Fields& f, Model& model) {
  Traits t;
  t.kv_heads = 8;
  t.windows = Windows::all;
  read(f, model, t);
}

void read_mixtral(Fields& f, Model& model) {
  Traits t;
  t.kv_heads = 8;
  t.windows = Windows::all;
  t.window = 0;
  t.experts_key = "num_local_experts";
  t.experts = 8;
  t.top_k = 2;
  read(f, model, t);
}

void read_qwen2(Fields& f, Model& model) {
  Traits t;
  t.kv_heads = 32;
  t.qkv_bias = true;
  t.windows = Windows::qwen;
  read(f, model, t);
}

void read_qwen3(Fields& f, Model& model) {
  Traits t;
  t.kv_heads = 32;
  t.head_dim = 128;
  t.attention_bias_key = t.qk_norm = true;
  t.windows = Windows::qwen;
  read(f, model, t);
}

void read_qwen3_moe(Fields& f, Model& model) {
  Traits t;
  t.kv_heads = 4;
  t.attention_bias_key = t.qk_norm = true;
  t.windows = Windows::qwen;
  t.experts_key = "num_experts";
  t.experts = 128;
  t.top_k = 8;
  read(f, model, t);
}

void read_gemma(Fields& f, Model& model) { read(f, model, gemma_traits(16, 16, 256, 256000)); }

void read_gemma2(Fields& f, Model& model) {
  Traits t = gemma_traits(8, 4, 256, 256000);
  t.sandwich_norms = t.softcap = true;
  t.windows = Windows::alternate;
  read(f, model, t);
}

void read_gemma3_text(Fields& f, Model& model) {
  Traits t = gemma_traits(8, 4, 256, 262208);
  t.sandwich_norms = t.qk_norm = true;
  t.windows = Windows::alternate;
  t.pattern = 6;
  read(f, model, t);
}

void read_phi3(Fields& f, Model& model) {
  Traits t;
  t.windows = Windows::all;
  t.window = 0;
  t.partial_rotary = t.residual_dropout_key = true;
  read(f, model, t);
}

}  // namespace espalier::model
