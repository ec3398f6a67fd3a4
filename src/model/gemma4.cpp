// SPDX-License-Identifier: Apache-2.0
// The text of Gemma 4 (Google 2026): norms before and after each half, norms of queries, keys and (without weights) values, windows on all layers
// but every sixth. Layers that see everything have heads of their own width and, with attention_k_eq_v, keys that are values too.
//
//   sliding   2·h·d·(H + KV) + 2d      full   h·D·(2·H + 2·G), with k = v h·D·(2·H + G), + 2D      dense 3·h·f + 4h
//   mixture   beside the dense MLP: experts 3·E·h·m, router h·E + h + E, three more norms
//   d head_dim, D global_head_dim, G num_global_key_value_heads, m moe_intermediate_size
//
// Embeddings a layer (hidden_size_per_layer_input) and layers that use the keys of others (num_kv_shared_layers) are refused by name: their
// features travel past every stage, which nothing here moves. Facts: class Gemma4TextModel of Hugging Face transformers 5.23.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Gemma4 {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  bool tied = true, softcap = false, mixture = false;
  AttentionShape sliding, full;
  ExpertShape experts;
  std::vector<std::int64_t> windows;
};

/// Share of the features of full layers' heads that are rotated: rope_parameters.full_attention.partial_rotary_factor.
double rotary_share(Fields& f) {
  const base::Node* node = f.reader().find("rope_parameters");
  for (const char* key : {"full_attention", "partial_rotary_factor"}) {
    if (node == nullptr || node->kind != base::NodeKind::mapping) return 0.25;
    const auto at = std::find_if(node->members.begin(), node->members.end(), [&](const auto& m) { return m.first == key; });
    node = at == node->members.end() ? nullptr : &at->second;
  }
  return node != nullptr && node->real >= 0 && node->real <= 1 ? node->real : 0.25;
}

/// What transformers writes of full layers in place of global_head_dim and num_global_key_value_heads: the same mapping for each of them.
void read_layer_config(Fields& f, const std::vector<std::int64_t>& windows, AttentionShape& full) {
  const base::Node* layers = f.reader().find("per_layer_config");
  f.reader().ignore({"per_layer_config"});
  if (layers == nullptr || layers->members.empty()) return;
  std::size_t named = 0;
  for (const auto& [key, config] : layers->members) {
    const std::size_t at = key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos && !key.empty()
                               ? std::stoul(key)
                               : windows.size();
    if (at >= windows.size() || windows[at] != 0)
      return f.fail("per_layer_config", key.substr(0, 40), "numbers of layers of full attention");
    for (const auto& [name, value] : config.members) {
      const bool sized = value.kind == base::NodeKind::integer && value.integer >= 1 && value.integer <= SizeLimits::head_dim;
      std::int64_t* field = name == "head_dim" ? &full.head_dim : name == "num_key_value_heads" ? &full.kv_heads : nullptr;
      if (field == nullptr || !sized || (named > 0 && *field != value.integer))
        return f.fail("per_layer_config", name.substr(0, 40),
                      "head_dim and num_key_value_heads, alike in all layers of full attention");
      *field = value.integer;
    }
    ++named;
  }
  if (named != static_cast<std::size_t>(std::count(windows.begin(), windows.end(), 0)))
    f.fail("per_layer_config", std::to_string(named) + " layers", "all layers of full attention");
}

void read_heads(Fields& f, Gemma4& g) {
  AttentionShape& a = g.sliding;
  a.hidden = g.hidden;
  a.heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, 8);
  a.kv_heads = f.integer_or({"num_key_value_heads"}, SizeLimits::heads, 4);
  a.head_dim = f.integer_or({"head_dim"}, SizeLimits::head_dim, 256);
  a.qkv_bias = a.out_bias = f.flag("attention_bias", false);
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  a.qk_norm = a.value_norm = true;
  a.rotary_dim = a.head_dim;
  g.full = a;
  g.full.keys_are_values = f.flag("attention_k_eq_v", false);
  const bool listed = f.reader().has("per_layer_config");
  g.full.head_dim = listed ? a.head_dim : f.integer_or({"global_head_dim"}, SizeLimits::head_dim, 512);
  if (g.full.keys_are_values)
    g.full.kv_heads =
        f.integer_nullable({"num_global_key_value_heads"}, SizeLimits::heads, a.kv_heads, a.kv_heads, "num_key_value_heads");
  f.reader().ignore({"global_head_dim", "num_global_key_value_heads"});
  read_layer_config(f, g.windows, g.full);
  if (!f.ok()) return;
  g.full.rotary_dim = static_cast<std::int64_t>(rotary_share(f) * static_cast<double>(g.full.head_dim));
  f.require_divides("num_key_value_heads", a.kv_heads, "num_attention_heads", a.heads);
  f.require_divides("num_global_key_value_heads", g.full.kv_heads, "num_attention_heads", a.heads);
}

void read_windows(Fields& f, Gemma4& g) {
  const std::int64_t window = f.integer_or({"sliding_window"}, SizeLimits::tokens, 512);
  g.windows = windows_of_layer_types(f, g.layers, window);
  for (auto i = static_cast<std::int64_t>(g.windows.size()); f.ok() && i < g.layers; ++i)
    g.windows.push_back((i + 1) % 6 == 0 ? 0 : window);
  if (f.ok()) g.windows.back() = 0;  // as the class has it
}

void read_mixture(Fields& f, Gemma4& g) {
  g.mixture = f.flag("enable_moe_block", false);
  f.reader().ignore(
      {"num_experts", "top_k_experts", "moe_intermediate_size", "use_double_wide_mlp"});  // without a switch of no use
  if (!g.mixture) return;
  g.experts.hidden = g.hidden;
  g.experts.experts = f.integer({"num_experts"}, SizeLimits::experts);
  g.experts.top_k = f.integer({"top_k_experts", "num_experts_per_tok"}, SizeLimits::experts);
  g.experts.ffn = f.integer({"moe_intermediate_size"}, SizeLimits::width);
  if (f.ok() && g.experts.top_k > g.experts.experts)
    f.fail("top_k_experts", g.experts.top_k, "at most num_experts, " + std::to_string(g.experts.experts));
}

/// Sizes that travel past every stage.
void refuse_travelling(Fields& f) {
  const std::int64_t own = f.integer_or({"hidden_size_per_layer_input"}, SizeLimits::width, 256, kFamilyDefault, 0);
  const std::int64_t shared = f.integer_or({"num_kv_shared_layers"}, SizeLimits::layers, 0, kFamilyDefault, 0);
  if (f.ok() && own > 0)
    f.fail("hidden_size_per_layer_input", own, "0: no embeddings of each layer", "Gemma 4 E2B and E4B are not planned");
  if (f.ok() && shared > 0) f.fail("num_kv_shared_layers", shared, "0: every layer has keys of its own");
  if (f.ok() && f.reader().has("use_bidirectional_attention")) {
    const std::string sees = f.reader().required_string("use_bidirectional_attention");
    if (f.ok() && sees == "all") f.fail("use_bidirectional_attention", sees, "causal attention of the text");
  }
  f.reader().ignore({"vocab_size_per_layer_input", "use_bidirectional_attention"});
}

/// The dense MLP and the experts, side by side: each with a norm behind it, added, before the norm that closes the half.
void add_mixture(Operators& list, const Gemma4& g) {
  list.push_back(norm("mlp.dense_norm", g.hidden, 1));
  list.push_back(norm("mlp.router_norm", g.hidden, 0));
  list.push_back(norm("mlp.expert_norm", g.hidden, 1));
  const std::size_t router = list.size();
  add_experts(list, g.experts);
  list[router].parameters += g.hidden + g.experts.experts;  // a scale of each feature and of each expert
  list[router].parameters_unsplit = list[router].parameters;
  list.push_back(norm("mlp.mixture_norm", g.hidden, 1));
  list.push_back(residual("mlp.add", g.hidden));
}

LayerKind block(const Gemma4& g, std::size_t i) {
  const bool slides = g.windows[i] > 0;
  LayerKind kind =
      make_kind(std::string("decoder") + (g.mixture ? ".moe" : "") + (slides ? ".sliding" : ""), LayerRole::block, g.hidden);
  AttentionShape attention = slides ? g.sliding : g.full;
  attention.window = g.windows[i];
  Operators mixer, mlp;
  add_attention(mixer, "attn", attention);
  add_mlp(mlp, "mlp.", {g.hidden, g.ffn, true, false, false, false});
  if (g.mixture) add_mixture(mlp, g);
  add_block(kind.operators, {g.hidden, 1, NormPlace::sandwich, false}, std::move(mixer), std::move(mlp));
  return kind;
}

LayerKind head(const Gemma4& g) {
  LayerKind kind = make_kind("head", LayerRole::head, g.hidden);
  kind.operators.push_back(norm("head.norm", g.hidden, 1));
  add_logits(kind.operators, g.hidden, g.vocabulary, g.tied);
  if (g.softcap)  // between logits and loss
    kind.operators.insert(kind.operators.end() - 1, activation("head.softcap", g.vocabulary, g.vocabulary, TpSplit::vocab));
  return kind;
}

}  // namespace

void read_gemma4_text(Fields& f, Model& model) {
  Gemma4 g;
  g.hidden = f.integer_or({"hidden_size"}, SizeLimits::width, 2304);
  g.layers = f.integer_or({"num_hidden_layers"}, SizeLimits::layers, 30);
  g.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, 9216);
  g.vocabulary = f.integer_or({"vocab_size"}, SizeLimits::vocabulary, 262144);
  g.tied = f.flag("tie_word_embeddings", true);
  g.softcap = f.reader().has("final_logit_softcapping");
  refuse_travelling(f);
  read_windows(f, g);
  if (f.ok()) read_heads(f, g);
  read_mixture(f, g);
  f.reader().ignore({"hidden_activation", "final_logit_softcapping"});
  model.context_length = f.context_length();
  if (!f.ok()) return;

  model.vocabulary = g.vocabulary;
  model.tied_embeddings = g.tied;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, g.hidden);
  add_token_embedding(embedding.operators, g.vocabulary, g.hidden);
  layers.add(std::move(embedding));
  for (std::size_t i = 0; i < g.windows.size(); ++i) layers.add(block(g, i));
  layers.add(head(g));
}

}  // namespace espalier::model
