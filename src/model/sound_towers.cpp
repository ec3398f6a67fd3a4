// SPDX-License-Identifier: Apache-2.0
// Reads sound towers. Whisper's encoder (qwen2_audio, voxtral, qwen2_5_omni) is a ViT whose tokens two convolutions
// make of mel frames (tower.h). Conformers (Gulati et al. 2020; gemma3n, gemma4, phi4) have two MLPs around attention
// and a convolution, each half a layer:
//
//   gemma   2·(8w² + 2w) + 5w² + d + 2w + 3w² + k·w + 2w + w
//           w width, k taps of the depthwise convolution, d features a head;
//           the fifth matrix of attention makes keys of distances; attention reaches `left` tokens back from pieces of
//           `chunk`
//   phi4    2·(3w·f + 3f + 2w) + 4w² + 4w + (2w² + 4w + k·w + w + 2w² + 2w) + norms 10w
//           gated MLPs of f features, biases.
//
// Two-dimensional convolutions before the blocks are products over their unfolded input, with several positions a
// token. The work omits keys of distances, once for each of a few distances. Facts: Gemma3nAudioEncoder,
// Gemma4AudioModel, Phi4MultimodalAudioModel and Qwen2_5OmniAudioEncoder of Hugging Face transformers 5.23.
#include <algorithm>
#include <string>
#include <utility>

#include "model/state_space.h"
#include "model/tower.h"

namespace espalier::model {
namespace {

// ---- Whisper's form -----------------------------------------------------------------------------------------------

/// Reads Whisper's encoder, without its last norm; positions are computed. `merge`: tokens that the projector merges
/// into one.
TowerShape read_whisper(Fields& v, std::int64_t merge) {
  TowerShape t;
  t.hidden = v.integer({"d_model", "hidden_size"}, SizeLimits::width);
  t.layers = v.integer({"encoder_layers", "num_hidden_layers"}, SizeLimits::layers);
  t.ffn = v.integer({"encoder_ffn_dim", "intermediate_size"}, SizeLimits::width);
  t.attention.heads = t.attention.kv_heads = v.integer({"encoder_attention_heads", "num_attention_heads"}, SizeLimits::heads);
  v.require_divides("encoder_attention_heads", t.attention.heads, "d_model", t.hidden);
  t.attention.head_dim = std::max<std::int64_t>(1, t.hidden / t.attention.heads);
  t.attention.qkv_bias = t.attention.out_bias = true;
  t.attention.score_dropout = v.positive_rate({"attention_dropout"}, 0);
  t.key_bias = false;
  t.bins = v.integer_or({"num_mel_bins"}, 4096, 128);
  t.tokens = v.integer_or({"max_source_positions"}, SizeLimits::tokens, 1500);
  t.merge = merge;
  if (v.ok() && t.tokens % t.merge != 0) v.fail("max_source_positions", t.tokens, "a multiple of " + std::to_string(merge));
  v.reader().ignore({"activation_function", "activation_dropout", "dropout", "encoder_layerdrop", "layerdrop", "scale_embedding",
                     "vocab_size"});
  return t;
}

// ---- conformers ---------------------------------------------------------------------------------------------------

struct Conformer {
  std::int64_t hidden = 0, ffn = 0, layers = 0;
  int norm_weights = 1;
  bool gated = false, bias = false, post_norms = false;
  AttentionShape attention;
  std::int64_t distances = 0;  ///< parameters of attention other than projections
  Operators opening, convolution, closing;
};

/// Adds norm, operators, [norm,] addition.
void add_half(Operators& list, const Conformer& c, const std::string& name, bool post_norm, Operators inner) {
  list.push_back(norm(name + ".norm", c.hidden, c.norm_weights));
  for (Operator& op : inner) list.push_back(std::move(op));
  if (post_norm) list.push_back(norm(name + ".post_norm", c.hidden, c.norm_weights));
  list.push_back(residual(name + ".residual", c.hidden));
}

Operators conformer_operators(const Conformer& c) {
  Operators list, attention;
  const auto mlp = [&](const std::string& prefix) {
    Operators inner;
    add_mlp(inner, prefix, {c.hidden, c.ffn, c.gated, c.bias, c.bias, false});
    return inner;
  };
  add_attention(attention, "attn", c.attention);
  for (Operator& op : attention) {
    if (op.kind != OperatorKind::attention) continue;
    op.parameters = c.distances;
    op.parameters_unsplit = c.distances > 0 ? c.attention.head_dim : 0;
  }
  add_half(list, c, "mlp.first", c.post_norms, mlp("mlp.first_"));
  add_half(list, c, "attn", c.post_norms, std::move(attention));
  add_half(list, c, "conv", false, c.convolution);
  add_half(list, c, "mlp.second", c.post_norms, mlp("mlp.second_"));
  list.push_back(norm("tower.norm", c.hidden, c.norm_weights));
  return list;
}

/// Returns the blocks. The first begins with the operators that make tokens; the last ends with `closing`, of `out`
/// features.
std::vector<LayerKind> conformer_blocks(const Conformer& c, std::int64_t out) {
  std::vector<LayerKind> blocks;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const bool first = i == 0, last = i + 1 == c.layers;
    LayerKind kind = make_kind(std::string("tower") + (first ? ".first" : "") + (last ? ".last" : ""), LayerRole::block,
                               last ? out : c.hidden);
    if (first) kind.operators = c.opening;
    for (Operator& op : conformer_operators(c)) kind.operators.push_back(std::move(op));
    if (last)
      for (const Operator& op : c.closing) kind.operators.push_back(op);
    blocks.push_back(std::move(kind));
  }
  return blocks;
}

/// Returns a two-dimensional convolution: `positions` of its output are one token.
Operator convolution(std::string name, std::int64_t in, std::int64_t out, std::int64_t positions, bool bias) {
  constexpr std::int64_t kTaps = 9;
  Operator op = linear(std::move(name), times(kTaps * in, positions), out, TpSplit::none, false);
  op.parameters = op.parameters_unsplit = times(kTaps * in, out) + (bias ? out : 0);
  return op;
}

void read_heads(Fields& a, Conformer& c, std::string_view key, std::int64_t absent) {
  c.attention.hidden = c.hidden;
  c.attention.causal = false;
  c.attention.heads = c.attention.kv_heads = a.integer_or({key}, SizeLimits::heads, absent);
  a.require_divides(key, c.attention.heads, "hidden_size", c.hidden);
  c.attention.head_dim = std::max<std::int64_t>(1, c.hidden / c.attention.heads);
}

// ---- Gemma's ------------------------------------------------------------------------------------------------------

/// Reads two numbers under `key`, which may be absent.
std::pair<std::int64_t, std::int64_t> read_channels(Fields& a, std::string_view key) {
  const auto listed = a.reader().optional_int_list(key, 1, SizeLimits::width);
  if (listed.empty()) return {128, 32};
  if (a.ok() && listed.size() != 2) a.fail(key, std::to_string(listed.size()) + " entries", "channels of two convolutions");
  return {listed.front(), listed.back()};
}

/// Requires lists of lists that are `value` throughout: kernels of three by three, strides of two.
void expect_all(Fields& a, std::string_view key, std::int64_t value) {
  const base::Node* node = a.reader().find(key);
  if (node == nullptr) return;
  bool same = node->kind == base::NodeKind::sequence && node->items.size() == 2;
  for (const base::Node& pair : node->items)
    for (const base::Node& item : pair.items) same = same && item.kind == base::NodeKind::integer && item.integer == value;
  if (!same) a.fail(key, "other sizes", "[[" + std::to_string(value) + ", …], …] throughout");
}

/// Adds the operators that make tokens of frames of `bins`: two convolutions, each halving time and bins, with a norm
/// a channel.
void add_gemma_opening(Conformer& c, std::int64_t bins, std::pair<std::int64_t, std::int64_t> channels, std::int64_t features) {
  const std::int64_t half = (bins - 1) / 2 + 1, quarter = (half - 1) / 2 + 1;
  Operators& list = c.opening;
  const auto add = [&](const std::string& name, std::int64_t in, std::int64_t out, std::int64_t positions) {
    list.push_back(convolution("frames." + name, in, out, positions, false));
    if (list.size() == 1) list.back().kind = OperatorKind::patch_embed;
    list.push_back(norm("frames." + name + "_norm", times(out, positions), 0));
    list.back().parameters = list.back().parameters_unsplit = out;
    list.push_back(activation("frames." + name + "_activation", times(out, positions), times(out, positions), TpSplit::none));
  };
  add("conv1", 1, channels.first, 2 * half);
  add("conv2", channels.first, channels.second, quarter);
  list.push_back(linear("frames.project", features, c.hidden, TpSplit::none, false));
}

void add_gemma_convolution(Conformer& c, std::int64_t taps) {
  const std::int64_t w = c.hidden;
  c.convolution = {linear("conv.start", w, 2 * w, TpSplit::column, false),
                   activation("conv.gate", 2 * w, w, TpSplit::heads),
                   causal_conv("conv.conv", w, taps, false),
                   norm("conv.inner_norm", w, 1),
                   activation("conv.activation", w, w, TpSplit::heads),
                   linear("conv.end", w, w, TpSplit::row, false)};
}

Conformer read_gemma(Fields& a, std::int64_t width, const char* layers, const char* heads, const char* prefix, const char* taps) {
  Conformer c;
  c.hidden = a.integer_or({"hidden_size"}, SizeLimits::width, width);
  c.ffn = times(4, c.hidden);
  c.layers = a.integer_or({layers}, SizeLimits::layers, 12);
  read_heads(a, c, heads, 8);
  const std::string words = prefix;
  const std::int64_t chunk = a.integer_or({words + "attention_chunk_size"}, SizeLimits::tokens, 12);
  const std::int64_t left = a.integer_or({words + "attention_context_left"}, SizeLimits::tokens, 13);
  const std::int64_t right = a.integer_or({words + "attention_context_right"}, SizeLimits::tokens, 0, kFamilyDefault, 0);
  c.attention.window = chunk + left - 1 + right;
  c.post_norms = true;
  c.distances = times(c.hidden, c.hidden) + c.attention.head_dim;
  add_gemma_convolution(c, a.integer_or({taps}, 64, 5));
  a.reader().ignore({words + "attention_logit_cap", words + "residual_weight", "gradient_clipping",
                     "attention_invalid_logits_value", "use_clipped_linears", "hidden_act"});
  return c;
}

// ---- Phi-4's ------------------------------------------------------------------------------------------------------

/// Adds the operators that make tokens of frames of `bins`: a convolution, then pairs of a depthwise and a pointwise
/// one, each halving time and bins.
void add_phi_opening(Conformer& c, std::int64_t bins, std::int64_t channels, std::int64_t halvings) {
  Operators& list = c.opening;
  std::int64_t positions = std::int64_t{1} << halvings;
  for (std::int64_t i = 0; i < halvings; ++i) {
    bins = (bins - 1) / 2 + 1;
    positions /= 2;
    const std::int64_t all = times(channels, positions * bins);
    const std::string name = "frames.conv" + std::to_string(i + 1);
    if (i == 0) {
      list.push_back(convolution(name, 1, channels, positions * bins, true));
      list.back().kind = OperatorKind::patch_embed;
    } else {
      list.push_back(causal_conv(name, all, 9, false));
      list.back().parameters = 10 * channels;
      list.push_back(linear(name + "_point", all, channels, TpSplit::none, true));
      list.back().parameters = list.back().parameters_unsplit = times(channels, channels) + channels;
    }
    list.push_back(activation(name + "_activation", all, all, TpSplit::none));
  }
  list.push_back(linear("frames.project", times(channels, bins), c.hidden, TpSplit::none, true));
}

/// Reads a size in the file itself (transformers), or in a mapping inside it (the file of the hub's own class).
std::int64_t read_inner(Fields& a, std::string_view key, std::string_view outer, std::string_view inner, std::int64_t absent) {
  base::Reader mapping = a.reader().child(outer, false);
  const std::int64_t there = mapping.optional_int(inner, 1, SizeLimits::width, absent);
  return a.reader().has(outer) ? there : a.integer_or({key}, SizeLimits::width, absent);
}

void add_phi_convolution(Conformer& c, std::int64_t taps) {
  const std::int64_t w = c.hidden;
  Operator gate = activation("conv.gate", 2 * w, w, TpSplit::heads);
  gate.parameters = 2 * w;
  c.convolution = {linear("conv.start", w, 2 * w, TpSplit::column, true),
                   std::move(gate),
                   causal_conv("conv.conv", w, taps, true),
                   linear("conv.point", w, w, TpSplit::row, true),
                   activation("conv.activation", w, w, TpSplit::none),
                   linear("conv.end", w, w, TpSplit::none, true)};
}

}  // namespace

/// Reads Qwen2-Audio: tokens are pooled in pairs.
TowerShape read_qwen2_audio(Fields&, Fields& v, std::int64_t width) {
  TowerShape t = read_whisper(v, 2);
  t.projectors = {{"projector",
                   {pool("projector.mean", times(t.merge, t.hidden)), norm("projector.norm", t.hidden, 2),
                    linear("projector.linear", t.hidden, width, TpSplit::none, true)}}};
  return t;
}

/// Reads Voxtral: neighbouring tokens are concatenated, which makes them as wide as the encoder's MLP.
TowerShape read_voxtral(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_whisper(v, 4);
  top.reader().ignore({"projector_hidden_act", "hidden_size"});
  t.last_norm = 2;
  if (v.ok() && t.ffn != times(t.hidden, t.merge))
    v.fail("intermediate_size", t.ffn, "the width of four tokens, " + std::to_string(times(t.hidden, t.merge)));
  t.projectors = {{"projector", two_linears(t.ffn, width, width, false)}};
  return t;
}

/// Reads Qwen2.5-Omni: attention inside pieces, tokens pooled in pairs, a norm, a matrix. Rows begin and end a
/// recording.
TowerShape read_omni_sound(Fields&, Fields& a, std::int64_t width) {
  a.assume({{"d_model", 1280}, {"encoder_layers", 32}, {"encoder_ffn_dim", 5120}, {"encoder_attention_heads", 20}});
  TowerShape t = read_whisper(a, 2);
  t.tokens = 0;  // recordings of any length, in pieces
  t.attention.chunk = a.integer_or({"n_window"}, SizeLimits::tokens, 100);
  const std::int64_t out = a.integer_or({"output_dim"}, SizeLimits::width, 3584);
  if (a.ok() && out != width) a.fail("output_dim", out, "the width of the text, " + std::to_string(width));
  Operator last = linear("projector.linear", t.hidden, width, TpSplit::none, true);
  last.parameters += 2 * width;
  last.parameters_unsplit = last.parameters;
  t.projectors = {
      {"projector", {pool("projector.mean", times(t.merge, t.hidden)), norm("projector.norm", t.hidden, 2), std::move(last)}}};
  return t;
}

Operators gemma3n_embedder(std::int64_t width, std::int64_t rows, std::int64_t text_width) {
  Operator held = pool("projector.held_table", width);  // holds tokens that represent sound or images in the text
  held.parameters = held.parameters_unsplit = times(rows, width) + width;
  return {std::move(held), norm("projector.norm", width, 1), linear("projector.linear", width, text_width, TpSplit::none, false),
          norm("projector.post_norm", text_width, 0)};
}

/// Reads Gemma 3n: every fourth token of the conformer is kept.
TowerShape read_gemma3n_sound(Fields& top, Fields& a, std::int64_t width) {
  Conformer c = read_gemma(a, 1536, "conf_num_hidden_layers", "conf_num_attention_heads", "conf_", "conf_conv_kernel_size");
  const std::int64_t bins = a.integer_or({"input_feat_size"}, 4096, 128);
  const auto channels = read_channels(a, "sscp_conv_channel_size");
  expect_all(a, "sscp_conv_kernel_size", 3);
  expect_all(a, "sscp_conv_stride_size", 2);
  const std::int64_t quarter = ((bins - 1) / 2 + 2) / 2;
  add_gemma_opening(c, bins, channels, times(channels.second, quarter));
  TowerShape t;
  t.merge = a.integer_or({"conf_reduction_factor"}, 64, 4);
  const std::int64_t rows = a.integer_or({"vocab_size"}, SizeLimits::vocabulary, 128);
  a.reader().ignore({"vocab_offset", "sscp_conv_group_norm_eps"});
  top.reader().ignore({"audio_soft_tokens_per_image"});
  if (!a.ok()) return t;
  t.blocks = conformer_blocks(c, c.hidden);
  Operators list = gemma3n_embedder(c.hidden, rows, width);
  list.insert(list.begin(), pool("projector.kept", times(t.merge, c.hidden)));
  t.projectors = {{"projector", std::move(list)}};
  return t;
}

TowerShape read_gemma4_sound(Fields&, Fields& a, std::int64_t width) {
  Conformer c = read_gemma(a, 1024, "num_hidden_layers", "num_attention_heads", "", "conv_kernel_size");
  const auto channels = read_channels(a, "subsampling_conv_channels");
  constexpr std::int64_t kBins = 128;
  // The class uses bins as channels.
  add_gemma_opening(c, kBins, channels, times(channels.first / 4, channels.second));
  if (a.ok() && channels.first != kBins) a.fail("subsampling_conv_channels", channels.first, "128, the number of mel bins");
  const std::int64_t out = a.integer_or({"output_proj_dims"}, SizeLimits::width, 1536);
  c.closing = {linear("tower.output", c.hidden, out, TpSplit::none, true)};
  TowerShape t;
  if (!a.ok()) return t;
  t.blocks = conformer_blocks(c, out);
  t.projectors = {{"projector", {norm("projector.norm", out, 0), linear("projector.linear", out, width, TpSplit::none, false)}}};
  return t;
}

/// Reads Phi-4: two projections to the text's width, one for recordings alone and one for recordings with images. One
/// of them is held and not run.
TowerShape read_phi4_sound(Fields&, Fields& a, std::int64_t width) {
  Conformer c;
  c.hidden = a.integer_or({"hidden_size", "attention_dim"}, SizeLimits::width, 1024);
  c.ffn = a.integer_or({"intermediate_size", "linear_units"}, SizeLimits::width, 1536);
  c.layers = a.integer_or({"num_blocks"}, SizeLimits::layers, 24);
  read_heads(a, c, a.reader().find("attention_heads") != nullptr ? "attention_heads" : "num_attention_heads", 16);
  c.norm_weights = 2;
  c.gated = c.bias = true;
  c.attention.qkv_bias = c.attention.out_bias = true;
  c.attention.chunk = 500;  // longer recordings are cut into pieces of this many tokens
  c.attention.score_dropout = a.positive_rate({"dropout_rate"}, 0);
  for (const auto key : {"ext_pw_out_channel", "depthwise_separable_out_channel", "depthwise_seperable_out_channel"})
    if (const std::int64_t w = a.reader().optional_int(key, 1, SizeLimits::width, c.hidden); a.ok() && w != c.hidden)
      a.fail(key, w, "hidden_size, " + std::to_string(c.hidden));
  if (a.reader().optional_int("depthwise_multiplier", 1, 64, 1) != 1) a.fail("depthwise_multiplier", "several", "1");
  if (a.reader().optional_int("chunk_size", -1, SizeLimits::tokens, -1) > 0) a.fail("chunk_size", "streaming", "-1, no chunks");
  if (a.reader().optional_int("downsample_rate", 1, 64, 1) != 1) a.fail("downsample_rate", "several", "1");
  add_phi_convolution(c, a.integer_or({"kernel_size"}, 64, 3));
  const std::int64_t factor = a.integer_or({"time_reduction"}, 64, 8);
  std::int64_t halvings = 0;
  while ((std::int64_t{2} << halvings) <= factor) ++halvings;
  if (a.ok() && factor != std::int64_t{1} << halvings) a.fail("time_reduction", factor, "a power of two");
  const std::int64_t channels = read_inner(a, "nemo_conv_channels", "nemo_conv_settings", "conv_channels", 1024);
  const std::int64_t distances = read_inner(a, "bias_max_distance", "relative_attention_bias_args", "t5_bias_max_distance", 1000);
  add_phi_opening(c, a.integer_or({"input_size"}, 4096, 80), channels, std::max<std::int64_t>(1, halvings));
  const bool symmetric = a.reader().optional_bool("bias_symmetric", false);
  a.reader().ignore({"activation", "conv_activation", "conv_glu_type", "nemo_activation", "left_chunk", "audio_token_id",
                     "feature_layer", "activation_checkpointing", "cnn_layer_norm", "input_layer", "bias_in_glu", "causal",
                     "batch_norm", "encoder_embedding_config", "ext_pw_kernel_size", "audio_embd_layer"});
  TowerShape t;
  if (!a.ok()) return t;
  Operator table = pool("tower.distances", c.hidden);
  table.parameters = table.parameters_unsplit = times(symmetric ? distances : 2 * distances, c.attention.heads);
  c.opening.push_back(std::move(table));
  t.blocks = conformer_blocks(c, c.hidden);
  Operators list = two_linears(c.hidden, width, width, true);
  Operator held = pool("projector.held", width);
  for (const Operator& op : list) held.parameters += op.parameters;
  held.parameters_unsplit = held.parameters;
  list.push_back(std::move(held));
  t.projectors = {{"projector", std::move(list)}};
  return t;
}

/// Reads the images of Phi-4: SigLIP, a mean over four patches, an MLP. Rows end lines and images.
TowerShape read_phi4_images(Fields& top, Fields& v, std::int64_t width) {
  v.assume({{"hidden_size", 1152}, {"intermediate_size", 4304}, {"num_hidden_layers", 27}, {"num_attention_heads", 16}});
  TowerShape t = read_siglip_tower(v, true, 14, 448);
  t.merge = 4;
  if (v.ok() && t.tokens % 4 != 0) v.fail("image_size", t.tokens, "a number of patches divisible by four");
  v.reader().ignore({"crop_size", "feature_layer", "image_token_id"});
  top.reader().ignore({"embd_pdrop"});
  Operator mean = pool("projector.mean", times(t.merge, t.hidden));
  mean.parameters = mean.parameters_unsplit = 2 * t.hidden;
  Operators list = two_linears(t.hidden, width, width, true);
  list.insert(list.begin(), std::move(mean));
  t.projectors = {{"projector", std::move(list)}};
  return t;
}

}  // namespace espalier::model
