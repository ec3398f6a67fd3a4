// SPDX-License-Identifier: Apache-2.0
// Reads the text models of Gemma 4 (Google 2026) and, of the same form, Gemma 3n (2025). Norms are before and after
// each half, and on queries, keys and (without weights) values. All layers but every sixth have windows. Full layers
// have heads of another width and, with attention_k_eq_v, keys that are also the values.
//
//   sliding   2·h·d·(H + KV) + 2d      full   h·D·(2·H + 2·G), with k = v h·D·(2·H + G), + 2D      dense 3·h·f + 4h
//   mixture   parallel to the dense MLP: experts 3·E·h·m, router h·E + h + E, another three norms
//   d head_dim, D global_head_dim, G num_global_key_value_heads, m moe_intermediate_size
//
//   own embeddings   table v·L·p, h·L·p, p; a block 2·h·p + h
//                    p hidden_size_per_layer_input, L layers, v vocab_size_per_layer_input
//   shared keys      the last num_kv_shared_layers blocks do not project keys and values. They use those of the last
//                    sliding and the last full block before them. With use_double_wide_mlp their MLPs are twice as
//                    wide.
//   Gemma 3n         n = altup_num_inputs streams of h features pass from block to block (AltUp, Baykal et al. 2023).
//                    A block works on one, predicts and corrects all: n³ + n² + h·n + 2h. Parallel to attention is a
//                    low-rank pair 2·h·r + h (LAuReL). Both ends have (n − 1)·h².
//
// Embeddings of each layer and shared keys travel along from where they are made to the last block (carried_hidden).
// The table of own embeddings is whole on every rank, as in the class. The keys that shared blocks keep are counted
// with each of them. Facts: classes Gemma4TextModel and Gemma3nTextModel of Hugging Face transformers 5.23.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

struct Gemma4 {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  std::int64_t own = 0, own_rows = 0;    ///< p and v
  std::int64_t shared = 0;               ///< blocks that use keys of other blocks
  std::int64_t streams = 1, laurel = 0;  ///< n and r of Gemma 3n
  std::vector<std::int64_t> ffns;        ///< width of each block, if they differ
  bool double_wide = false;
  bool tied = true, softcap = false, mixture = false;
  AttentionShape sliding, full;
  ExpertShape experts;
  std::vector<std::int64_t> windows;
};

/// Returns the share of rotated features in full layers' heads: rope_parameters.full_attention.partial_rotary_factor.
double rotary_share(Fields& f) {
  const base::Node* node = f.reader().find("rope_parameters");
  for (const char* key : {"full_attention", "partial_rotary_factor"}) {
    if (node == nullptr || node->kind != base::NodeKind::mapping) return 0.25;
    const auto at = std::find_if(node->members.begin(), node->members.end(), [&](const auto& m) { return m.first == key; });
    node = at == node->members.end() ? nullptr : &at->second;
  }
  return node != nullptr && node->real >= 0 && node->real <= 1 ? node->real : 0.25;
}

/// Reads the form of transformers for full layers, which replaces global_head_dim and num_global_key_value_heads: the
/// same mapping for each layer.
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
      return f.fail("per_layer_config", key.substr(0, 40), "indices of layers with full attention");
    for (const auto& [name, value] : config.members) {
      const bool sized = value.kind == base::NodeKind::integer && value.integer >= 1 && value.integer <= SizeLimits::head_dim;
      std::int64_t* field = name == "head_dim" ? &full.head_dim : name == "num_key_value_heads" ? &full.kv_heads : nullptr;
      if (field == nullptr || !sized || (named > 0 && *field != value.integer))
        return f.fail("per_layer_config", name.substr(0, 40),
                      "equal head_dim and num_key_value_heads in all layers with full attention");
      *field = value.integer;
    }
    ++named;
  }
  if (named != static_cast<std::size_t>(std::count(windows.begin(), windows.end(), 0)))
    f.fail("per_layer_config", std::to_string(named) + " layers", "all layers with full attention");
}

void read_heads(Fields& f, Gemma4& g) {
  AttentionShape& a = g.sliding = read_gemma_attention(f, g.hidden, 4);
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  a.qk_norm = a.value_norm = true;
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
  f.require_divides("num_global_key_value_heads", g.full.kv_heads, "num_attention_heads", a.heads);
}

void read_windows(Fields& f, Gemma4& g) {
  const std::int64_t window = f.integer_or({"sliding_window"}, SizeLimits::tokens, 512);
  g.windows = windows_of_layer_types(f, g.layers, window);
  for (auto i = static_cast<std::int64_t>(g.windows.size()); f.ok() && i < g.layers; ++i)
    g.windows.push_back((i + 1) % 6 == 0 ? 0 : window);
  if (f.ok()) g.windows.back() = 0;  // as in the class
}

void read_mixture(Fields& f, Gemma4& g) {
  g.mixture = f.flag("enable_moe_block", false);
  f.reader().ignore({"num_experts", "top_k_experts", "moe_intermediate_size"});  // unused without the switch
  if (!g.mixture) return;
  g.experts.hidden = g.hidden;
  g.experts.experts = f.integer({"num_experts"}, SizeLimits::experts);
  g.experts.top_k = f.integer({"top_k_experts", "num_experts_per_tok"}, SizeLimits::experts);
  g.experts.ffn = f.integer({"moe_intermediate_size"}, SizeLimits::width);
  if (f.ok() && g.experts.top_k > g.experts.experts)
    f.fail("top_k_experts", g.experts.top_k, "at most num_experts, " + std::to_string(g.experts.experts));
}

/// Reads own embeddings of each layer, and reused keys. `shared` is the class's default for the number of blocks that
/// use keys of others.
void read_travelling(Fields& f, Gemma4& g, std::int64_t shared) {
  g.own = f.integer_or({"hidden_size_per_layer_input"}, SizeLimits::width, 256, kFamilyDefault, 0);
  g.own_rows = f.integer_or({"vocab_size_per_layer_input"}, SizeLimits::vocabulary, 262144);
  g.shared = f.integer_or({"num_kv_shared_layers"}, SizeLimits::layers, shared, kFamilyDefault, 0);
  g.double_wide = f.flag("use_double_wide_mlp", false);
  if (f.ok() && g.shared > 0) {
    const auto first = static_cast<std::ptrdiff_t>(std::max<std::int64_t>(0, g.layers - g.shared));
    const auto slides = [](std::int64_t window) { return window > 0; };
    const auto begin = g.windows.begin(), from = begin + first;
    const bool kinds = std::any_of(begin, from, slides) == std::any_of(begin, g.windows.end(), slides) &&
                       !std::all_of(begin, from, slides);  // the last block has full attention
    if (!kinds) f.fail("num_kv_shared_layers", g.shared, "a block of each kind before those that reuse its keys");
  }
  if (f.ok() && f.reader().has("use_bidirectional_attention")) {
    const std::string sees = f.reader().required_string("use_bidirectional_attention");
    if (f.ok() && sees == "all") f.fail("use_bidirectional_attention", sees, "causal attention over the text");
  }
  f.reader().ignore({"use_bidirectional_attention"});
}

/// Adds the dense MLP and the experts in parallel. Each has a norm after it; they are added before the norm that
/// closes the half.
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

/// Returns the features a token that travel along after block i (-1: the embedding): own embeddings, and reused keys
/// and values.
std::int64_t travelling(const Gemma4& g, std::int64_t i) {
  if (i + 1 == g.layers) return 0;
  std::int64_t features = times(g.layers, g.own);
  if (g.shared == 0) return features;
  for (const bool slides : {false, true}) {  // made by the last block of its kind before the shared ones
    std::int64_t maker = g.layers - g.shared - 1;
    while (maker >= 0 && (g.windows[static_cast<std::size_t>(maker)] > 0) != slides) --maker;
    const AttentionShape& a = slides ? g.sliding : g.full;
    if (maker >= 0 && i >= maker) features += 2 * a.kv_heads * a.head_dim;
  }
  return features;
}

/// Adds a gate of the block's own embedding, and its projection back.
void add_own_embedding(Operators& list, const Gemma4& g) {
  list.push_back(linear("own.gate", g.hidden, g.own, TpSplit::none, false));
  list.push_back(activation("own.activation", g.own, g.own, TpSplit::none));
  list.push_back(linear("own.project", g.own, g.hidden, TpSplit::none, false));
  list.push_back(norm("own.norm", g.hidden, 1));
  list.push_back(residual("own.residual", g.hidden));
}

/// Adds the shares of the streams: a norm, a product with n columns, tanh. `again` reuses the previous weights.
void add_stream_shares(Operators& list, const Gemma4& g, const std::string& name, bool again) {
  list.push_back(norm(name + ".norm", g.hidden, again ? 0 : 1));
  list.push_back(linear(name + ".router", g.hidden, g.streams, TpSplit::none, false));
  if (again) list.back().parameters = list.back().parameters_unsplit = 0;
  list.push_back(activation(name + ".tanh", g.streams, g.streams, TpSplit::none));
}

/// Adds the prediction of all streams of the block from those that enter.
void add_prediction_of_streams(Operators& list, const Gemma4& g) {
  const std::int64_t all = times(g.streams, g.hidden);
  add_stream_shares(list, g, "predict", false);
  list.push_back(linear("predict.coefficients", g.streams, g.streams * g.streams, TpSplit::none, false));
  list.push_back(activation("predict.streams", all, all, TpSplit::none));
}

/// Adds their correction by the block's result for one of them.
void add_correction_of_streams(Operators& list, const Gemma4& g) {
  const std::int64_t all = times(g.streams, g.hidden);
  add_stream_shares(list, g, "correct", true);
  list.push_back(linear("correct.coefficients", g.streams, g.streams, TpSplit::none, false));
  list.push_back(activation("correct.streams", all, all, TpSplit::none));
  list.push_back(activation("correct.scale", g.hidden, g.hidden, TpSplit::none));
  list.back().parameters = list.back().parameters_unsplit = g.hidden;
}

/// Adds the low-rank pair parallel to attention, after the same norm.
void add_low_rank(Operators& list, const Gemma4& g) {
  list.push_back(linear("laurel.down", g.hidden, g.laurel, TpSplit::none, false));
  list.back().parallel = true;
  list.push_back(linear("laurel.up", g.laurel, g.hidden, TpSplit::none, false));
  list.push_back(norm("laurel.norm", g.hidden, 1));
  list.push_back(residual("laurel.residual", g.hidden));
}

/// Adds both halves, surrounded by Gemma 3n's operators.
void add_halves(Operators& list, const Gemma4& g, Operators mixer, Operators mlp) {
  const BlockShape shape{g.hidden, 1, NormPlace::sandwich, false};
  if (g.streams == 1) return add_block(list, shape, std::move(mixer), std::move(mlp));
  add_prediction_of_streams(list, g);
  Operators both;
  add_block(both, shape, std::move(mixer), std::move(mlp));
  for (Operator& op : both) {
    if (op.name == "mlp.norm") add_low_rank(list, g);
    list.push_back(std::move(op));
  }
  add_correction_of_streams(list, g);
}

LayerKind block(const Gemma4& g, std::size_t i) {
  const bool slides = g.windows[i] > 0, shared = static_cast<std::int64_t>(i) >= g.layers - g.shared;
  const std::int64_t along = travelling(g, static_cast<std::int64_t>(i));
  std::string name = std::string("decoder") + (g.mixture ? ".moe" : "") + (slides ? ".sliding" : "") + (shared ? ".shared" : "");
  if (along > times(g.layers, g.own)) name += ".keys" + std::to_string(along - times(g.layers, g.own));
  if (i + 1 == g.windows.size() && along != times(g.layers, g.own)) name += ".last";
  if (!g.ffns.empty()) name += ".ffn" + std::to_string(g.ffns[i]);
  LayerKind kind = make_kind(std::move(name), LayerRole::block, times(g.streams, g.hidden));
  kind.carried = along > 0 ? TokenStream::main : kind.carried;
  kind.carried_hidden = along;
  AttentionShape attention = slides ? g.sliding : g.full;
  attention.window = g.windows[i];
  attention.foreign_keys = shared;
  Operators mixer, mlp;
  add_attention(mixer, "attn", attention);
  add_mlp(mlp, "mlp.",
          {g.hidden, (g.ffns.empty() ? g.ffn : g.ffns[i]) * (shared && g.double_wide ? 2 : 1), true, false, false, false});
  if (g.mixture) add_mixture(mlp, g);
  add_halves(kind.operators, g, std::move(mixer), std::move(mlp));
  if (g.own > 0) add_own_embedding(kind.operators, g);
  return kind;
}

LayerKind embedding(const Gemma4& g) {
  LayerKind kind = make_kind("embedding", LayerRole::embedding, times(g.streams, g.hidden));
  auto& list = kind.operators;
  add_token_embedding(list, g.vocabulary, g.hidden);
  if (g.streams > 1) list.push_back(linear("streams.make", g.hidden, times(g.streams - 1, g.hidden), TpSplit::none, false));
  if (g.own == 0) return kind;
  const std::int64_t all = times(g.layers, g.own);
  list.push_back(table("own.table", g.own_rows, all, TpSplit::none));
  list.push_back(linear("own.project", g.hidden, all, TpSplit::none, false));
  list.back().parallel = g.streams > 1;  // reads the input of streams.make
  list.push_back(norm("own.norm", all, 1));
  list.back().parameters = list.back().parameters_unsplit = g.own;
  list.push_back(residual("own.add", all));
  kind.carried = TokenStream::main;
  kind.carried_hidden = all;
  return kind;
}

LayerKind head(const Gemma4& g) {
  LayerKind kind = make_kind("head", LayerRole::head, g.hidden);
  if (g.streams > 1) {
    kind.operators.push_back(linear("streams.merge", times(g.streams - 1, g.hidden), g.hidden, TpSplit::none, false));
    kind.operators.push_back(activation("streams.mean", times(g.streams, g.hidden), g.hidden, TpSplit::none));
  }
  kind.operators.push_back(norm("head.norm", g.hidden, 1));
  add_logits(kind.operators, g.hidden, g.vocabulary, g.tied);
  if (g.softcap)  // between logits and loss
    kind.operators.insert(kind.operators.end() - 1, activation("head.softcap", g.vocabulary, g.vocabulary, TpSplit::vocab));
  return kind;
}

/// Reads one width for all blocks, or one for each.
void read_widths(Fields& f, Gemma4& g) {
  const base::Node* node = f.reader().find("intermediate_size");
  if (node == nullptr || node->kind != base::NodeKind::sequence) {
    g.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, 16384);
    return;
  }
  const auto listed = f.reader().optional_int_list("intermediate_size", 1, SizeLimits::width);
  if (f.ok() && listed.size() != static_cast<std::size_t>(g.layers))
    return f.fail("intermediate_size", std::to_string(listed.size()) + " entries", "one per layer, " + std::to_string(g.layers));
  if (!f.ok()) return;
  g.ffn = listed.front();
  if (std::any_of(listed.begin(), listed.end(), [&](std::int64_t width) { return width != g.ffn; })) g.ffns = listed;
}

void build(Fields& f, const Gemma4& g, Model& model) {
  model.context_length = f.context_length();
  if (!f.ok()) return;

  model.vocabulary = g.vocabulary;
  model.tied_embeddings = g.tied;
  LayerList layers(model);
  layers.add(embedding(g));
  for (std::size_t i = 0; i < g.windows.size(); ++i) layers.add(block(g, i));
  layers.add(head(g));
}

}  // namespace

AttentionShape read_gemma_attention(Fields& f, std::int64_t hidden, std::int64_t kv_heads) {
  AttentionShape a;
  a.hidden = hidden;
  a.heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, 8);
  a.kv_heads = f.integer_or({"num_key_value_heads"}, SizeLimits::heads, kv_heads);
  f.require_divides("num_key_value_heads", a.kv_heads, "num_attention_heads", a.heads);
  a.head_dim = a.rotary_dim = f.integer_or({"head_dim"}, SizeLimits::head_dim, 256);
  a.qkv_bias = a.out_bias = f.flag("attention_bias", false);
  return a;
}

void read_gemma4_text(Fields& f, Model& model) {
  Gemma4 g;
  g.hidden = f.integer_or({"hidden_size"}, SizeLimits::width, 2304);
  g.layers = f.integer_or({"num_hidden_layers"}, SizeLimits::layers, 30);
  g.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, 9216);
  g.vocabulary = f.integer_or({"vocab_size"}, SizeLimits::vocabulary, 262144);
  g.tied = f.flag("tie_word_embeddings", true);
  g.softcap = f.reader().has("final_logit_softcapping");
  read_windows(f, g);
  if (f.ok()) read_travelling(f, g, 0);
  if (f.ok()) read_heads(f, g);
  read_mixture(f, g);
  f.reader().ignore({"hidden_activation", "final_logit_softcapping"});
  build(f, g, model);
}

void read_gemma3n_text(Fields& f, Model& model) {
  Gemma4 g;
  g.hidden = f.integer_or({"hidden_size"}, SizeLimits::width, 2048);
  g.layers = f.integer_or({"num_hidden_layers"}, SizeLimits::layers, 35);
  g.vocabulary = f.integer_or({"vocab_size"}, SizeLimits::vocabulary, 262400);
  g.tied = f.flag("tie_word_embeddings", true);
  g.softcap = f.reader().find("final_logit_softcapping") == nullptr || f.reader().has("final_logit_softcapping");
  g.streams = f.integer_or({"altup_num_inputs"}, 64, 4);
  g.laurel = f.integer_or({"laurel_rank"}, SizeLimits::width, 64);
  read_widths(f, g);
  const std::int64_t window = f.integer_or({"sliding_window"}, SizeLimits::tokens, 512);
  g.windows = windows_of_layer_types(f, g.layers, window);
  for (auto i = static_cast<std::int64_t>(g.windows.size()); f.ok() && i < g.layers; ++i)
    g.windows.push_back((i + 1) % 5 == 0 ? 0 : window);
  AttentionShape& a = g.sliding = read_gemma_attention(f, g.hidden, 2);
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  a.qk_norm = a.value_norm = true;
  g.full = a;
  if (f.ok()) read_travelling(f, g, 15);
  f.reader().ignore({"hidden_activation", "final_logit_softcapping", "activation_sparsity_pattern", "altup_active_idx",
                     "altup_coef_clip", "altup_correct_scale"});
  build(f, g, model);
}

}  // namespace espalier::model
