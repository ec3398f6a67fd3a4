// SPDX-License-Identifier: Apache-2.0
// Reads decoders that differ in the switches of Traits (decoder_traits.h).
#include <algorithm>
#include <string>
#include <utility>

#include "base/division.h"
#include "model/decoder_traits.h"

namespace espalier::model {
namespace {

struct Decoder {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  bool tied = false, mlp_bias = false;
  bool head_bias = false;
  BlockShape block;
  AttentionShape attention;
  std::vector<std::int64_t> windows;  ///< per layer; 0 = whole sequence
  std::vector<std::int64_t> pieces;   ///< per layer: attention inside pieces of this many tokens; empty = none
  Operators mixer;                    ///< replaces attention where `mixes`
  std::vector<bool> mixes;
  std::vector<bool> unrotated;  ///< per layer: no rotary positions?
  std::vector<bool> sparse;     ///< per layer: mixture of experts?
  ExpertShape experts;
};

bool is_on(Fields& f, const Switch& s) { return s.key.empty() ? s.absent : f.flag(s.key, s.absent); }

/// Returns the share of a head's features that are rotated, from the file's own key or its rope_parameters
/// (transformers 5).
double rotary_share(Fields& f, const Traits& t) {
  if (f.reader().has("partial_rotary_factor")) return f.real({"partial_rotary_factor"}, 0, 1, t.rotary);
  const base::Node* rope = f.reader().find("rope_parameters");
  if (rope == nullptr || rope->kind != base::NodeKind::mapping) return t.rotary;
  for (const auto& [key, value] : rope->members)
    if (key == "partial_rotary_factor" && value.real >= 0 && value.real <= 1) return value.real;
  return t.rotary;
}

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
  a.qkv_bias = is_on(f, t.qkv_bias);
  a.out_bias = t.out_bias.key.empty() || t.out_bias.key != t.qkv_bias.key ? is_on(f, t.out_bias) : a.qkv_bias;
  a.qk_norm = t.head_norm != HeadNorm::none && is_on(f, t.head_norm_on);
  a.qk_norm_whole = t.head_norm == HeadNorm::whole;
  a.qk_norm_weights = t.head_norm_weights;
  a.sinks = t.sinks;
  a.sub_norm = t.sub_norm;
  if (t.output_gate) a.gate = times(a.heads, a.head_dim);
  a.rotary_dim = static_cast<std::int64_t>(rotary_share(f, t) * static_cast<double>(a.head_dim));
  return a;
}

/// Adds a note on a window that the family's class does not read (llama). No note is needed if its switch turns it
/// off (qwen).
void read_unused_window(Fields& f, const Traits& t) {
  const base::Node* window = f.reader().find("sliding_window");
  if (t.windows == Windows::none && window != nullptr && in_use(*window)) {
    f.note(ModelNote::Kind::left_out, "sliding_window",
           "sliding_window = " + window->text.substr(0, 20) +
               " is not read for this family: every layer attends to the whole sequence");
  }
}

/// Reads the period of layers with full attention: a number, or letters whose last one represents that layer
/// ("LLLG").
std::int64_t read_pattern(Fields& f, const Traits& t) {
  const base::Node* node = f.reader().find("sliding_window_pattern");
  if (node != nullptr && node->kind == base::NodeKind::string && !node->text.empty() && node->text.size() < 64)
    return static_cast<std::int64_t>(node->text.size());
  return f.integer_or({"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"}, SizeLimits::layers,
                      t.pattern);
}

/// Returns the window of each layer. An explicit layer_types list overrides the family's rule.
std::vector<std::int64_t> read_windows(Fields& f, const Traits& t, std::int64_t layers) {
  std::int64_t window = 0;
  if (t.windows == Windows::alternate) {
    window = f.integer_or({"sliding_window"}, SizeLimits::tokens, t.window);
  } else if (t.windows == Windows::all || t.windows == Windows::listed ||
             (t.windows == Windows::qwen && f.flag("use_sliding_window", false))) {
    window = f.integer_nullable({"sliding_window"}, SizeLimits::tokens, t.window, 0, "sliding window off", 0);
  } else {
    read_unused_window(f, t);
  }
  auto windows = windows_of_layer_types(f, layers, window);
  const std::int64_t first = t.windows == Windows::qwen && window > 0
                                 ? f.integer_or({"max_window_layers"}, SizeLimits::layers, layers, "all layers full", 0)
                                 : 0;
  const bool patterned = t.windows == Windows::alternate || t.windows == Windows::listed;
  const std::int64_t pattern = patterned && windows.empty() ? read_pattern(f, t) : 1;
  f.reader().ignore({"max_window_layers", "sliding_window_pattern", "_sliding_window_pattern", "sliding_window_size",
                     "global_attn_every_n_layers"});
  if (!windows.empty() || !f.ok()) return windows;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool slides = patterned ? (i + 1) % pattern != 0 : i >= first;
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

/// Returns which layers are mixtures of experts: by a list, after some dense ones, or periodically; otherwise all.
/// The keys are decoder_sparse_step and mlp_only_layers in qwen3_moe, a first and a last layer in ernie4_5_moe.
std::vector<bool> read_sparse_layers(Fields& f, const Traits& t, std::int64_t layers, std::int64_t experts) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), experts > 0);
  const std::int64_t dense_first =
      t.first_dense.empty() ? 0 : f.integer_or({t.first_dense}, SizeLimits::layers, t.dense_layers, kFamilyDefault, 0);
  std::int64_t step = 1, last = layers - 1;
  if (t.experts_key == "num_experts") step = f.integer_or({"decoder_sparse_step"}, SizeLimits::layers, 1, "every layer");
  if (t.first_dense == "moe_layer_start_index") {
    step = f.integer_or({"moe_layer_interval"}, SizeLimits::layers, 1, "every layer");
    last = f.integer_nullable({"moe_layer_end_index"}, SizeLimits::layers, layers - 1, layers - 1, "to the last layer", -1);
    if (last < 0) last = layers - 1;
  }
  std::int64_t from = 0;
  if (f.reader().has("expert_layer_period")) {  // jamba
    step = f.integer_or({"expert_layer_period"}, SizeLimits::layers, 2);
    from = step - 1 - f.integer_or({"expert_layer_offset"}, SizeLimits::layers, 1, kFamilyDefault, 0) % step;
  }
  const auto dense = f.reader().optional_int_list("mlp_only_layers", 0, SizeLimits::layers);
  const auto types = per_layer_list(f, "mlp_layer_types", layers, {"dense", "sparse"});
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!types.empty()) {
      sparse[at] = experts > 0 && types[at] == "sparse";
    } else {
      sparse[at] = experts > 0 && (i + 1 + from) % step == 0 && i >= dense_first && i <= last &&
                   std::find(dense.begin(), dense.end(), i) == dense.end();
    }
  }
  return sparse;
}

/// Returns the width of the shared experts of a layer.
std::int64_t read_shared(Fields& f, const Traits& t, std::int64_t width) {
  if (!t.shared_width.empty()) return f.integer_or({t.shared_width}, SizeLimits::width, t.shared_absent, kFamilyDefault, 0);
  if (t.shared_count.empty()) return 0;
  return times(width, f.integer_or({t.shared_count}, 1024, t.shared_absent, kFamilyDefault, 0));
}

void read_experts(Fields& f, const Traits& t, Decoder& d) {
  d.experts.hidden = d.hidden;
  d.sparse.assign(static_cast<std::size_t>(d.layers), false);
  if (t.experts_key.empty()) return;
  const std::string_view other = t.experts_key == "num_experts" ? "num_local_experts" : "num_experts";
  d.experts.experts = f.integer_or({t.experts_key, other}, SizeLimits::experts, t.experts, kFamilyDefault, 0);
  d.experts.top_k =
      f.integer_or({"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"}, SizeLimits::experts, t.top_k);
  // In mixtral, intermediate_size is the width of one expert; qwen3_moe has both.
  d.experts.ffn = t.expert_width.empty() ? d.ffn : f.integer({t.expert_width}, SizeLimits::width);
  d.experts.shared_ffn = read_shared(f, t, d.experts.ffn);
  d.experts.shared_gate = t.shared_gate;
  d.experts.bias = t.expert_bias || d.mlp_bias;
  d.experts.router_bias = t.expert_bias;
  d.sparse = read_sparse_layers(f, t, d.layers, d.experts.experts);
  if (d.experts.experts > 0 && d.experts.top_k > d.experts.experts) {
    f.fail("num_experts_per_tok", d.experts.top_k, "at most the number of experts, " + std::to_string(d.experts.experts));
  }
}

/// Returns which layers mix tokens by other means than attention: those of a list, else all but some. (jamba has
/// period and offset; bamba the indices of attention layers.)
std::vector<bool> read_mixes(Fields& f, const Traits& t, std::int64_t layers) {
  std::vector<bool> mixes(static_cast<std::size_t>(layers), false);
  if (t.mixer == nullptr || t.beside) return mixes;
  const auto types =
      per_layer_list(f, "layer_types", layers, {"full_attention", "attention", "linear_attention", "mamba", "conv"});
  const auto legacy = f.reader().optional_int_list("attn_type_list", 0, 1);  // minimax: 1 attends
  const auto indices = f.reader().optional_int_list("attn_layer_indices", 0, SizeLimits::layers);
  const auto more = f.reader().optional_int_list("full_attn_idxs", 0, SizeLimits::layers);
  const std::int64_t period = f.reader().has("attn_layer_period") || t.attention_every > 0
                                  ? f.integer_or({"attn_layer_period", "full_attention_interval"}, SizeLimits::layers,
                                                 std::max<std::int64_t>(1, t.attention_every))
                                  : 0;
  const std::int64_t offset = f.reader().has("attn_layer_offset")
                                  ? f.integer_or({"attn_layer_offset"}, SizeLimits::layers, 0, kFamilyDefault, 0)
                                  : std::max<std::int64_t>(0, period - 1);
  const auto holds = [](const std::vector<std::int64_t>& list, std::int64_t i) {
    return std::find(list.begin(), list.end(), i) != list.end();
  };
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!types.empty())
      mixes[at] = types[at] == "linear_attention" || types[at] == "mamba" || types[at] == "conv";
    else if (legacy.size() == mixes.size())
      mixes[at] = legacy[at] == 0;
    else
      mixes[at] = period > 0 ? i % period != offset % period : !holds(indices, i) && !holds(more, i);
  }
  return mixes;
}

/// Returns the feed-forward width of lfm2.
std::int64_t adjusted_width(Fields& f, std::int64_t width) {
  const bool adjusts = f.flag("block_auto_adjust_ff_dim", true);
  const double factor = f.reader().has("block_ffn_dim_multiplier") ? f.real({"block_ffn_dim_multiplier"}, 0.001, 1024, 1) : 1.0;
  const std::int64_t multiple = f.integer_or({"block_multiple_of"}, SizeLimits::width, 256);
  f.reader().ignore({"block_ff_dim"});
  if (!adjusts) return width;
  const auto scaled = static_cast<std::int64_t>(factor * static_cast<double>(2 * width / 3));
  return round_up(scaled, multiple);
}

/// Returns the layers without rotary positions, if the file lists them: 0 in no_rope_layers.
std::vector<bool> read_unrotated(Fields& f, const Traits& t, std::int64_t layers) {
  std::vector<bool> none(static_cast<std::size_t>(layers), false);
  if (!t.positions_left_out) return none;
  const auto rotates = f.reader().optional_int_list("no_rope_layers", 0, 1);
  const std::int64_t interval = f.integer_or({"no_rope_layer_interval"}, SizeLimits::layers, 4);
  if (!f.ok()) return none;
  if (!rotates.empty() && rotates.size() != none.size()) {
    f.fail("no_rope_layers", std::to_string(rotates.size()) + " entries", "one per layer, " + std::to_string(layers));
    return none;
  }
  for (std::size_t i = 0; i < none.size(); ++i)
    none[i] = rotates.empty() ? (static_cast<std::int64_t>(i) + 1) % interval == 0 : rotates[i] == 0;
  return none;
}

/// Reads Llama 4's pieces: every fourth layer has full attention without rotary positions, the others attend inside
/// pieces.
void read_chunks(Fields& f, Decoder& d) {
  const std::int64_t piece = f.integer_nullable({"attention_chunk_size"}, SizeLimits::tokens, 8192, 0, "no pieces");
  const auto types = per_layer_list(f, "layer_types", d.layers, {"full_attention", "chunked_attention"});
  d.pieces.assign(static_cast<std::size_t>(d.layers), 0);
  for (std::size_t i = 0; i < d.pieces.size(); ++i) {
    const bool chunked = types.empty() ? !d.unrotated[i] : types[i] == "chunked_attention";
    d.pieces[i] = chunked ? piece : 0;
  }
}

/// Reads Llama 4's mixtures, from moe_layers or by a period. Dense layers have a separate width.
void read_interleaved_mixtures(Fields& f, Decoder& d) {
  const std::int64_t step = f.integer_or({"interleave_moe_layer_step"}, SizeLimits::layers, 1);
  const auto listed = f.reader().optional_int_list("moe_layers", 0, SizeLimits::layers);
  d.experts.shared_ffn = d.experts.ffn = d.ffn;
  d.ffn = f.integer_or({"intermediate_size_mlp"}, SizeLimits::width, 16384);
  for (std::size_t i = 0; i < d.sparse.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    d.sparse[i] = listed.empty() ? (at + 1) % step == 0 : std::find(listed.begin(), listed.end(), at) != listed.end();
  }
  f.reader().ignore({"use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale", "for_llm_compressor"});
}

Operators mlp_of(const Decoder& d, const Traits& t, bool sparse) {
  Operators list;
  if (sparse) {
    add_experts(list, d.experts);
  } else {
    MlpShape shape{d.hidden, d.ffn, t.gated, d.mlp_bias, d.mlp_bias, false};
    shape.parallel = d.block.norms == NormPlace::parallel;
    shape.sub_norm = t.sub_norm;
    shape.activation_parameters = t.activation_parameters;
    add_mlp(list, "mlp.", shape);
  }
  return list;
}

/// Adds the mixer parallel to attention: it reads the same input, and their outputs are added.
void add_beside(Operators& list, const Decoder& d) {
  for (const Operator& op : d.mixer) list.push_back(op);
  const std::size_t first = list.size() - d.mixer.size();
  if (!d.mixer.empty()) list[first].parallel = true;
  list.push_back(residual("attn.add_mixer", d.hidden));
}

LayerKind block(const Decoder& d, const Traits& t, std::size_t i) {
  LayerKind kind;
  kind.name = d.mixes[i] ? "decoder.mixer" : "decoder";
  if (d.sparse[i]) kind.name += ".moe";
  if (d.windows[i] > 0 && !d.mixes[i]) kind.name += ".sliding";
  if (!d.pieces.empty() && d.pieces[i] > 0) kind.name += ".chunked";
  if (d.unrotated[i]) kind.name += ".nope";
  kind.hidden = d.hidden;
  AttentionShape attention = d.attention;
  attention.window = d.windows[i];
  attention.chunk = d.pieces.empty() ? 0 : d.pieces[i];
  if (d.unrotated[i]) attention.rotary_dim = 0;
  Operators mixer;
  if (d.mixes[i])
    mixer = d.mixer;
  else
    add_attention(mixer, "attn", attention);
  if (t.beside) add_beside(mixer, d);
  add_block(kind.operators, d.block, std::move(mixer), mlp_of(d, t, d.sparse[i]));
  return kind;
}

/// Adds a note on a bias that the file requests but the family's class lacks.
void judge_unread_bias(Fields& f, const Traits& t) {
  const base::Node* bias = f.reader().find("attention_bias");
  if (bias == nullptr || !in_use(*bias) || t.qkv_bias.key == "attention_bias") return;
  f.note(ModelNote::Kind::ignored, "attention_bias", "attention_bias is not read for this family: its class sets the biases");
}

LayerKind embedding(const Decoder& d) {
  LayerKind kind;
  kind.name = "embedding";
  kind.role = LayerRole::embedding;
  kind.hidden = d.hidden;
  add_token_embedding(kind.operators, d.vocabulary, d.hidden);
  return kind;
}

LayerKind head(const Decoder& d, const Traits& t, bool softcap) {
  LayerKind kind;
  kind.name = "head";
  kind.role = LayerRole::head;
  kind.hidden = d.hidden;
  if (t.final_norm) kind.operators.push_back(norm("head.norm", d.hidden, t.norm_weights));
  add_logits(kind.operators, d.hidden, d.vocabulary, d.tied, d.head_bias);
  if (softcap) {  // between logits and loss
    kind.operators.insert(kind.operators.end() - 1, activation("head.softcap", d.vocabulary, d.vocabulary, TpSplit::vocab));
  }
  return kind;
}

}  // namespace

void read_decoder(Fields& f, Model& model, const Traits& t) {
  Decoder d;
  d.hidden = f.integer({"hidden_size", "n_embd", "d_model"}, SizeLimits::width);
  d.layers = f.integer({"num_hidden_layers", "n_layer", "num_layers"}, SizeLimits::layers);
  d.ffn = t.every_layer_sparse ? 1 : f.integer({"intermediate_size", "ffn_dim"}, SizeLimits::width);
  d.vocabulary = t.vocabulary > 0 ? f.integer_or({"vocab_size"}, SizeLimits::vocabulary, t.vocabulary)
                                  : f.integer({"vocab_size"}, SizeLimits::vocabulary);
  d.tied = f.flag("tie_word_embeddings", t.tied);
  if (t.tied_given) d.tied = t.tied;
  d.attention = read_attention(f, t, d.hidden);
  d.mlp_bias = is_on(f, t.mlp_bias);
  d.head_bias = is_on(f, t.head_bias);
  d.block = {d.hidden, t.norm_weights, is_on(f, t.parallel) ? NormPlace::parallel : t.norms, false};
  d.mixes = read_mixes(f, t, d.layers);
  if (t.mixer != nullptr) d.mixer = t.mixer(f, d.hidden);
  if (t.adjusts_width) d.ffn = adjusted_width(f, d.ffn);
  d.windows = t.mixer == nullptr && !t.chunks ? read_windows(f, t, d.layers) : std::vector<std::int64_t>(d.mixes.size(), 0);
  d.unrotated = read_unrotated(f, t, d.layers);
  if (t.chunks && f.ok()) read_chunks(f, d);
  read_experts(f, t, d);
  if (t.chunks && f.ok()) read_interleaved_mixtures(f, d);
  if (t.mixer != nullptr && !t.shared_width.empty() && !t.shared_gate && d.experts.experts == 0) d.ffn = d.experts.shared_ffn;
  const bool softcap =
      f.reader().find("final_logit_softcapping") == nullptr ? t.softcap : f.reader().has("final_logit_softcapping");
  if (f.positive_rate({"attention_dropout"}, t.score_dropout)) d.attention.score_dropout = true;
  d.block.dropout = !t.dropout.empty() && f.positive_rate({t.dropout}, t.dropout_absent);
  judge_unread_bias(f, t);
  f.reader().ignore({"hidden_act",
                     "hidden_activation",
                     "attn_logit_softcapping",
                     "query_pre_attn_scalar",
                     "norm_topk_prob",
                     "router_jitter_noise",
                     "embd_pdrop",
                     "embedding_dropout",
                     "embedding_multiplier",
                     "logits_scaling",
                     "residual_multiplier",
                     "attention_multiplier",
                     "logit_scale",
                     "swiglu_alpha",
                     "swiglu_limit",
                     "clip_qkv",
                     "routed_scaling_factor",
                     "input_jitter_noise",
                     "moe_norm_min",
                     "route_scale",
                     "mup_enabled",
                     "scoring_func",
                     "topk_method",
                     "layer_rope_theta",
                     "use_bidirectional_attention",
                     "use_expert_bias",
                     "use_post_norm",
                     "lm_head_multiplier",
                     "key_multiplier",
                     "attention_in_multiplier",
                     "attention_out_multiplier",
                     "ssm_in_multiplier",
                     "ssm_out_multiplier",
                     "ssm_multipliers",
                     "mlp_multipliers"});
  const std::int64_t modules =
      t.prediction.empty() ? 0 : f.integer_or({t.prediction}, SizeLimits::prediction, 0, "no multi-token prediction", 0);
  if (!t.experts_key.empty()) read_routing_groups(f);
  const std::int64_t context_length = f.context_length();
  if (!f.ok()) return;

  model.context_length = context_length;
  model.vocabulary = d.vocabulary;
  model.tied_embeddings = d.tied;
  LayerList layers(model);
  layers.add(embedding(d));
  for (std::size_t i = 0; i < static_cast<std::size_t>(d.layers); ++i) layers.add(block(d, t, i));
  layers.add(head(d, t, softcap));
  add_prediction(model, modules, block(d, t, static_cast<std::size_t>(d.layers) - 1));
}

}  // namespace espalier::model
