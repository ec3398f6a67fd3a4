// SPDX-License-Identifier: Apache-2.0
// Reads vision-language models: the keys of their towers and projectors (tower.h). The text is read as the family
// named by text_config.model_type.
#include <algorithm>

#include "model/decoder_traits.h"
#include "model/tower.h"
#include "model/vision.h"

namespace espalier::model {
namespace {

/// Reads the common keys of towers; `patch`: side of a patch if the file has none.
TowerShape read_common(Fields& v, std::int64_t patch, std::int64_t image) {
  TowerShape t;
  t.hidden = v.integer({"hidden_size", "embed_dim"}, SizeLimits::width);
  t.layers = v.integer({"num_hidden_layers", "depth"}, SizeLimits::layers);
  t.attention.heads = t.attention.kv_heads = v.integer({"num_attention_heads", "num_heads"}, SizeLimits::heads);
  v.require_divides("num_attention_heads", t.attention.heads, "hidden_size", t.hidden);
  t.attention.head_dim = std::max<std::int64_t>(1, t.hidden / t.attention.heads);
  t.attention.score_dropout = v.positive_rate({"attention_dropout"}, 0);
  const std::int64_t side = read_side(v, "patch_size", patch);
  t.patch_features = times(v.integer_or({"num_channels", "in_channels", "in_chans"}, 4096, 3), times(side, side));
  if (image > 0) {
    const std::int64_t pixels = read_side(v, "image_size", image), across = std::max<std::int64_t>(1, pixels / side);
    if (pixels < side) v.fail("image_size", pixels, "at least patch_size = " + std::to_string(side));
    t.tokens = times(across, across);
    if (t.tokens > SizeLimits::tokens) v.fail("image_size", pixels, "an image of at most 2^31 patches");
  }
  v.reader().ignore(
      {"hidden_act", "projection_dim", "projector_hidden_act", "vocab_size", "num_image_tokens", "intermediate_act"});
  return t;
}

/// Returns a norm over merged patches whose weights are those of one patch.
Operator shared_norm(std::int64_t width, std::int64_t merge, int weights) {
  Operator op = norm("projector.norm", times(width, merge), weights);
  op.parameters = op.parameters_unsplit = weights * width;
  return op;
}

void expect_width(Fields& f, std::string_view key, std::int64_t found, std::int64_t text_width) {
  if (f.ok() && found != text_width)
    f.fail(key, found, "the width of the text, " + std::to_string(text_width), "patches replace tokens in the text");
}

std::int64_t read_merge(Fields& f, std::string_view key, std::int64_t absent) {
  const std::int64_t side = f.integer_or({key}, 64, absent);
  return side * side;
}

// ---- Qwen ---------------------------------------------------------------------------------------------------------

TowerShape read_qwen_tower(Fields& v, std::int64_t patch) {
  TowerShape t = read_common(v, patch, 0);
  t.patch_features = times(t.patch_features, v.integer_or({"temporal_patch_size"}, 64, 2));
  t.attention.qkv_bias = t.attention.out_bias = true;
  t.attention.rotary_dim = t.attention.head_dim;
  t.merge = read_merge(v, "spatial_merge_size", 2);
  v.reader().ignore({"tokens_per_second", "in_chans", "spatial_patch_size"});
  return t;
}

/// Reads Qwen2-VL: embed_dim is the tower's width, hidden_size that of the text.
TowerShape read_qwen2_vl(Fields&, Fields& v, std::int64_t width) {
  const std::int64_t out = v.integer_or({"hidden_size"}, SizeLimits::width, width, "width of the text");
  TowerShape t = read_qwen_tower(v, 14);
  t.hidden = v.integer({"embed_dim"}, SizeLimits::width);
  v.require_divides("num_heads", t.attention.heads, "embed_dim", t.hidden);
  t.attention.head_dim = t.attention.rotary_dim = std::max<std::int64_t>(1, t.hidden / t.attention.heads);
  t.ffn = times(t.hidden, v.integer_or({"mlp_ratio"}, 1024, 4));
  expect_width(v, "hidden_size", out, width);
  Operators merger = two_linears(t.hidden * t.merge, t.hidden * t.merge, width, true);
  merger.insert(merger.begin(), shared_norm(t.hidden, t.merge, 2));
  t.projectors = {{"projector", std::move(merger)}};
  return t;
}

/// Returns windows of window_size pixels, except for the layers in fullatt_block_indexes.
std::vector<std::int64_t> read_pieces(Fields& v, const TowerShape& t) {
  const std::int64_t window = v.integer_or({"window_size"}, SizeLimits::pixels, 112), side = read_side(v, "patch_size", 14);
  const std::int64_t across = std::max<std::int64_t>(1, window / side);
  auto full = v.reader().optional_int_list("fullatt_block_indexes", 0, SizeLimits::layers);
  if (v.reader().find("fullatt_block_indexes") == nullptr) full = {7, 15, 23, 31};
  std::vector<std::int64_t> pieces(static_cast<std::size_t>(t.layers), across * across);
  for (const std::int64_t i : full)
    if (i < t.layers) pieces[static_cast<std::size_t>(i)] = 0;
  return pieces;
}

TowerShape read_qwen2_5_vl(Fields&, Fields& v, std::int64_t width) {
  TowerShape t = read_qwen_tower(v, 14);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.norm_weights = 1;
  t.gated = true;
  if (!v.ok()) return t;
  t.pieces = read_pieces(v, t);
  expect_width(v, "out_hidden_size", v.integer_or({"out_hidden_size"}, SizeLimits::width, 3584), width);
  Operators merger = two_linears(t.hidden * t.merge, t.hidden * t.merge, width, true);
  merger.insert(merger.begin(), shared_norm(t.hidden, t.merge, 1));
  t.projectors = {{"projector", std::move(merger)}};
  return t;
}

TowerShape read_qwen3_tower(Fields& v, std::int64_t width) {
  TowerShape t = read_qwen_tower(v, 16);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.patch_bias = true;
  t.positions = v.integer_or({"num_position_embeddings"}, SizeLimits::vocabulary, 2304);
  expect_width(v, "out_hidden_size", v.integer_or({"out_hidden_size"}, SizeLimits::width, 3584), width);
  return t;
}

/// Reads Qwen3-VL. The features of some layers (deepstack) have mergers of their own and are added to those of the
/// first text blocks.
TowerShape read_qwen3_vl(Fields&, Fields& v, std::int64_t width) {
  TowerShape t = read_qwen3_tower(v, width);
  auto deep = v.reader().optional_int_list("deepstack_visual_indexes", 0, SizeLimits::layers);
  if (v.reader().find("deepstack_visual_indexes") == nullptr) deep = {8, 16, 24};
  if (!v.ok()) return t;
  const std::int64_t merged = t.hidden * t.merge;
  Operators merger = two_linears(merged, merged, width, true), plain = merger;
  plain.insert(plain.begin(), norm("projector.norm", merged, 2));
  merger.insert(merger.begin(), shared_norm(t.hidden, t.merge, 2));
  if (deep.size() > static_cast<std::size_t>(t.layers))
    v.fail("deepstack_visual_indexes", static_cast<std::int64_t>(deep.size()), "at most one per layer");
  for (std::size_t i = 0; i < deep.size() && v.ok(); ++i) t.projectors.emplace_back("projector.deepstack", plain);
  t.projectors.emplace_back("projector", std::move(merger));
  return t;
}

/// Reads Qwen3.5, without the features of intermediate layers.
TowerShape read_qwen3_5(Fields&, Fields& v, std::int64_t width) {
  TowerShape t = read_qwen3_tower(v, width);
  if (!v.ok()) return t;
  Operators merger = two_linears(t.hidden * t.merge, t.hidden * t.merge, width, true);
  merger.insert(merger.begin(), shared_norm(t.hidden, t.merge, 2));
  t.projectors = {{"projector", std::move(merger)}};
  return t;
}

// ---- towers of CLIP, SigLIP, InternViT and Pixtral ----------------------------------------------------------------

}  // namespace

Operators two_linears(std::int64_t in, std::int64_t inner, std::int64_t out, bool bias) {
  Operators list;
  list.push_back(linear("projector.up", in, inner, TpSplit::column, bias));
  list.push_back(activation("projector.activation", inner, inner, TpSplit::heads));
  list.push_back(linear("projector.down", inner, out, TpSplit::row, bias));
  return list;
}

TowerShape read_clip_tower(Fields& v) {
  TowerShape t = read_common(v, 32, 224);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.attention.qkv_bias = t.attention.out_bias = true;
  t.positions = t.tokens + 1;
  t.class_token = t.hidden;
  t.first_norm = t.last_norm = 2;
  return t;
}

TowerShape read_siglip_tower(Fields& v, bool head, std::int64_t patch, std::int64_t image) {
  TowerShape t = read_common(v, patch, image);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.attention.qkv_bias = t.attention.out_bias = t.patch_bias = true;
  t.positions = t.tokens;
  t.last_norm = 2;
  const std::int64_t h = t.hidden;
  if (head && v.flag("vision_use_head", true))  // a query, attention, a norm and an MLP
    t.unused = h + 4 * times(h, h) + 4 * h + 2 * h + 2 * times(h, t.ffn) + t.ffn + h;
  v.reader().ignore({"vision_use_head"});
  return t;
}

namespace {

/// Reads the tower named by vision_config.model_type.
TowerShape read_clip_or_siglip(Fields& v) {
  const std::string type = v.text({"model_type"}, "clip_vision_model");
  if (type == "siglip_vision_model") return read_siglip_tower(v, true);
  if (v.ok() && type != "clip_vision_model")
    v.fail("model_type", type.substr(0, 60), "clip_vision_model or siglip_vision_model", "other towers have other layers");
  return read_clip_tower(v);
}

/// Returns how many layers of the tower have their features concatenated: a number names one layer, a list several.
std::int64_t feature_layers(Fields& top) {
  const base::Node* node = top.reader().find("vision_feature_layer");
  if (node == nullptr || node->kind != base::NodeKind::sequence) return 1;
  if (node->items.empty() || node->items.size() > static_cast<std::size_t>(SizeLimits::layers))
    top.fail("vision_feature_layer", std::to_string(node->items.size()) + " entries", "one layer, or a list of some");
  return static_cast<std::int64_t>(std::max<std::size_t>(1, node->items.size()));
}

/// Ignores other choices of features, which change no size: the whole tower is held.
void ignore_choices(Fields& top) {
  top.reader().ignore({"vision_feature_layer", "vision_feature_select_strategy", "image_seq_length", "projector_hidden_act",
                       "image_grid_pinpoints", "vision_aspect_ratio", "use_image_newline_parameter"});
}

TowerShape read_llava(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_clip_or_siglip(v);
  const std::int64_t layers = feature_layers(top);
  ignore_choices(top);
  const bool bias = top.flag("multimodal_projector_bias", true);
  t.projectors = {{"projector", two_linears(times(t.hidden, layers), width, width, bias)}};
  return t;
}

/// Reads LLaVA-NeXT, with a learned row that ends each line of patches.
TowerShape read_llava_next(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_llava(top, v, width);
  Operator& last = t.projectors.front().second.back();
  last.parameters += width;
  last.parameters_unsplit += width;
  return t;
}

TowerShape read_paligemma(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_siglip_tower(v, true);
  expect_width(top, "projection_dim", top.integer_or({"projection_dim"}, SizeLimits::width, width, "width of the text"), width);
  top.reader().ignore({"hidden_size"});
  t.projectors = {{"projector", {linear("projector.linear", t.hidden, width, TpSplit::none, true)}}};
  return t;
}

/// Reads Gemma 3: a mean over neighbouring patches, a norm, a matrix.
TowerShape read_gemma3(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_siglip_tower(v, true);
  const std::int64_t kept = top.integer_or({"mm_tokens_per_image"}, SizeLimits::tokens, 256);
  t.merge = std::max<std::int64_t>(1, t.tokens / kept);
  Operator mean = pool("projector.mean", times(t.merge, t.hidden));
  t.projectors = {{"projector",
                   {std::move(mean), norm("projector.norm", t.hidden, 1),
                    linear("projector.linear", t.hidden, width, TpSplit::none, false)}}};
  return t;
}

TowerShape read_smolvlm(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_common(v, 32, 224);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.attention.qkv_bias = t.attention.out_bias = t.patch_bias = true;
  t.positions = t.tokens;
  t.last_norm = 2;
  t.merge = read_merge(top, "scale_factor", 2);
  v.reader().ignore({"max_image_size", "size", "use_base_siglip", "model_type"});
  t.projectors = {{"projector", {linear("projector.linear", times(t.hidden, t.merge), width, TpSplit::none, false)}}};
  return t;
}

TowerShape read_internvl(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_common(v, 14, 448);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.attention.qkv_bias = v.flag("attention_bias", false);
  t.attention.out_bias = t.patch_bias = t.scaled = true;
  t.attention.qk_norm = t.attention.qk_norm_whole = v.flag("use_qk_norm", false);
  t.positions = v.flag("use_absolute_position_embeddings", true) ? t.tokens + 1 : 0;
  t.class_token = times(t.hidden, v.flag("use_mask_token", false) ? 2 : 1);
  t.norm_weights = v.text({"norm_type"}, "layer_norm") == "rms_norm" ? 1 : 2;
  t.last_norm = v.flag("use_mean_pooling", true) ? 0 : t.norm_weights;
  v.reader().ignore({"layer_scale_init_value", "projection_dropout", "hidden_dropout_prob"});
  ignore_choices(top);
  const double ratio = top.real({"downsample_ratio"}, 0.01, 1, 0.5);
  const auto side = static_cast<std::int64_t>(1 / ratio + 0.5);
  t.merge = side * side;
  Operators list = two_linears(times(t.hidden, t.merge), width, width, true);
  list.insert(list.begin(), norm("projector.norm", times(t.hidden, t.merge), 2));
  t.projectors = {{"projector", std::move(list)}};
  return t;
}

/// Reads Mistral 3 (Pixtral's tower): merged patches are first projected to the width of one.
TowerShape read_mistral3(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_common(v, 16, 0);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.attention.head_dim = v.integer_or({"head_dim"}, SizeLimits::head_dim, t.attention.head_dim, "hidden_size / heads");
  t.attention.rotary_dim = t.attention.head_dim;
  t.norm_weights = t.first_norm = 1;
  t.gated = true;
  t.mlp_bias = false;
  t.merge = read_merge(top, "spatial_merge_size", 2);
  v.reader().ignore({"image_size"});
  if (feature_layers(top) > 1) top.fail("vision_feature_layer", "a list of several", "one layer of the tower");
  ignore_choices(top);
  Operators list = two_linears(t.hidden, width, width, top.flag("multimodal_projector_bias", false));
  list.insert(list.begin(), linear("projector.merge", times(t.hidden, t.merge), t.hidden, TpSplit::none, false));
  list.insert(list.begin(), shared_norm(t.hidden, t.merge, 1));
  t.projectors = {{"projector", std::move(list)}};
  return t;
}

/// Reads Llama 4: patches without bias, rotary positions in addition to learned ones. Neighbouring patches are
/// concatenated, and an MLP makes them as wide as the tower's output. A matrix makes that as wide as the text.
TowerShape read_llama4(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t = read_common(v, 14, 448);
  t.ffn = v.integer({"intermediate_size"}, SizeLimits::width);
  t.attention.qkv_bias = t.attention.out_bias = true;
  t.attention.rotary_dim = t.attention.head_dim;
  t.positions = t.tokens + 1;
  t.class_token = t.hidden;
  t.first_norm = t.last_norm = 2;
  const double ratio = v.real({"pixel_shuffle_ratio"}, 0.01, 1, 0.5);
  const auto side = static_cast<std::int64_t>(1 / ratio + 0.5);
  t.merge = side * side;
  const std::int64_t inner = v.integer_or({"projector_input_dim"}, SizeLimits::width, 4096);
  const std::int64_t out = v.integer_or({"projector_output_dim"}, SizeLimits::width, 4096);
  const std::int64_t seen = v.integer_or({"vision_output_dim"}, SizeLimits::width, 7680);
  if (v.ok() && t.ffn != times(t.hidden, t.merge))
    v.fail("intermediate_size", t.ffn, "the width of merged patches, " + std::to_string(times(t.hidden, t.merge)));
  if (v.ok() && (inner != out || seen != out)) v.fail("vision_output_dim", seen, "the width of the adapter, in and out");
  v.reader().ignore(
      {"vision_feature_select_strategy", "multi_modal_projector_bias", "projector_dropout", "vision_feature_layer"});
  ignore_choices(top);
  Operators list = two_linears(times(t.hidden, t.merge), inner, out, false);
  list.push_back(activation("projector.second_activation", out, out, TpSplit::none));
  list.push_back(linear("projector.linear", out, width, TpSplit::none, false));
  t.projectors = {{"projector", std::move(list)}};
  return t;
}

/// Reads Gemma 4: two tables of positions (across, down), a mean over neighbouring patches, a norm without weights, a
/// matrix.
TowerShape read_gemma4(Fields& top, Fields& v, std::int64_t width) {
  TowerShape t;
  t.hidden = v.integer_or({"hidden_size"}, SizeLimits::width, 768);
  t.layers = v.integer_or({"num_hidden_layers"}, SizeLimits::layers, 16);
  t.ffn = v.integer_or({"intermediate_size"}, SizeLimits::width, 3072);
  AttentionShape& a = t.attention;
  a.heads = v.integer_or({"num_attention_heads"}, SizeLimits::heads, 12);
  a.kv_heads = v.integer_or({"num_key_value_heads"}, SizeLimits::heads, 12);
  v.require_divides("num_key_value_heads", a.kv_heads, "num_attention_heads", a.heads);
  a.head_dim = a.rotary_dim = v.integer_nullable({"head_dim", "global_head_dim"}, SizeLimits::head_dim, 64, 64, kFamilyDefault);
  a.score_dropout = v.positive_rate({"attention_dropout"}, 0);
  if (v.reader().optional_bool("attention_bias", false)) v.fail("attention_bias", "true", "projections without bias");
  a.qk_norm = a.value_norm = true;
  t.norm_weights = 1;
  t.sandwich = t.gated = true;
  t.mlp_bias = false;
  const std::int64_t side = read_side(v, "patch_size", 16);
  t.patch_features = 3 * side * side;
  t.positions = 2 * v.integer_or({"position_embedding_size"}, SizeLimits::vocabulary, 10240);
  t.merge = read_merge(v, "pooling_kernel_size", 3);
  v.reader().ignore({"hidden_activation", "standardize", "use_clipped_linears", "global_head_dim", "default_output_length"});
  top.reader().ignore({"vision_soft_tokens_per_image"});
  t.projectors = {{"projector",
                   {pool("projector.mean", times(t.merge, t.hidden)), norm("projector.norm", t.hidden, 0),
                    linear("projector.linear", t.hidden, width, TpSplit::none, false)}}};
  return t;
}

// ---- text and tower together --------------------------------------------------------------------------------------

/// Returns the family of text models that have another name inside a larger model: qwen2_vl_text is a qwen2.
std::string_view text_family(std::string_view type) {
  if (type == "qwen2_vl_text" || type == "qwen2_5_vl_text" || type == "qwen2_vl" || type == "qwen2_5_vl") return "qwen2";
  if (type == "qwen2_5_omni_text") return "qwen2";
  if (type == "qwen3_vl_text") return "qwen3";
  if (type == "qwen3_vl_moe_text") return "qwen3_moe";
  return type;
}

/// Ignores token ids in the file, and choices of features.
void ignore_tokens(Fields& f) {
  f.reader().ignore(
      {"image_token_id",      "image_token_index", "video_token_id",        "video_token_index",       "vision_start_token_id",
       "vision_end_token_id", "vision_token_id",   "audio_token_index",     "audio_token_id",          "eoa_token_index",
       "boi_token_index",     "eoi_token_index",   "ignore_index",          "tie_word_embeddings",     "boi_token_id",
       "eoi_token_id",        "boa_token_id",      "eoa_token_id",          "image_token_id",          "audio_start_token_id",
       "audio_end_token_id",  "user_token_id",     "vision_start_token_id", "position_id_per_seconds", "seconds_per_chunk"});
}

/// Reads the text. If the outer file states whether output and embedding are one table, it overrides the text's own
/// key.
void read_text(Fields& top, Fields& text, bool nested, const TowerFamily& family, Model& model) {
  const std::string named = nested ? text.text({"model_type"}, std::string(family.text)) : std::string(family.text);
  ignore_tokens(text);
  if (family.read_text != nullptr && named == family.text) return family.read_text(text, model);
  const Traits* traits = decoder_traits(text_family(named));
  if (traits == nullptr) {
    text.fail("model_type", named.substr(0, 60), "a text model of a known decoder family", "docs/models.md lists them");
    return;
  }
  Traits own = *traits;
  if (nested && top.reader().has("tie_word_embeddings")) {
    own.tied = top.reader().optional_bool("tie_word_embeddings", own.tied);
    own.tied_given = true;
  }
  if (family.generous && named == "llama")
    text.assume({{"hidden_size", 4096},
                 {"intermediate_size", 11008},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32},
                 {"vocab_size", 32000}});
  read_decoder(text, model, own);
}

}  // namespace

const std::vector<TowerFamily>& tower_families() {
  static const std::vector<TowerFamily> rows = {
      {"gemma3", "Gemma3", "gemma3_text", read_gemma3},
      {"gemma3n", "Gemma3n", "gemma3n_text", read_mobilenet, false, "vision_config", read_gemma3n_text, read_gemma3n_sound},
      {"gemma4", "Gemma4", "gemma4_text", read_gemma4, false, "vision_config", read_gemma4_text, read_gemma4_sound},
      {"idefics3", "Idefics3", "llama", read_smolvlm},
      {"internvl", "InternVL", "qwen2", read_internvl},
      {"llava", "Llava", "llama", read_llava, true},
      {"llava_next", "LlavaNext", "llama", read_llava_next, true},
      {"llama4", "Llama4", "llama4_text", read_llama4},
      {"llava_onevision", "LlavaOnevision", "qwen2", read_llava_next, true},
      {"mistral3", "Mistral3", "mistral", read_mistral3},
      {"paligemma", "PaliGemma", "gemma", read_paligemma},
      {"phi4_multimodal", "Phi4Multimodal", "phi3", read_phi4_images, false, "vision_config", nullptr, read_phi4_sound},
      {"qwen2_5_omni_thinker", "Qwen2_5OmniThinker", "qwen2", read_qwen2_5_vl, false, "vision_config", nullptr, read_omni_sound},
      {"qwen2_5_vl", "Qwen2_5_VL", "qwen2", read_qwen2_5_vl},
      {"qwen2_audio", "Qwen2Audio", "qwen2", read_qwen2_audio, true, "audio_config"},
      {"qwen2_vl", "Qwen2VL", "qwen2", read_qwen2_vl},
      {"qwen3_5", "Qwen3_5", "qwen3_5_text", read_qwen3_5},
      {"qwen3_5_moe", "Qwen3_5Moe", "qwen3_5_moe_text", read_qwen3_5},
      {"qwen3_vl", "Qwen3VL", "qwen3", read_qwen3_vl},
      {"qwen3_vl_moe", "Qwen3VLMoe", "qwen3_moe", read_qwen3_vl},
      {"smolvlm", "SmolVLM", "llama", read_smolvlm},
      {"voxtral", "Voxtral", "llama", read_voxtral, true, "audio_config"},
  };
  return rows;
}

namespace {

/// Holds the tower described by `key`, if the file has it. Its unread keys are judged once the model is built.
struct Sense {
  base::Reader reader;
  Fields fields;
  bool there = false;
  Sense(Fields& top, std::string_view key, bool known, Model& model)
      : reader(top.reader().child(key, false)), fields(reader, model.notes), there(known && top.reader().has(key)) {}
};

void note_missing(Fields& top, const Sense& sense, std::string_view key, bool alone) {
  if (sense.there) return;
  top.note(ModelNote::Kind::derived, key,
           "no " + std::string(key) + (alone ? ": only the text model is planned" : ": planned without that tower"));
}

}  // namespace

void read_tower_family(Fields& top, Model& model, const TowerFamily& family) {
  const bool nested = top.reader().has("text_config");
  base::Reader text_reader = nested ? top.reader().child("text_config", true) : top.reader();
  const bool hears = family.hear != nullptr;
  Sense seen(top, family.config, true, model), heard(top, hears ? "audio_config" : family.config, hears, model);
  if (!top.ok()) return;
  Fields own_text(text_reader, model.notes);
  Fields& text = nested ? own_text : top;
  read_text(top, text, nested, family, model);
  ignore_tokens(top);
  if (!top.ok()) return;
  const std::int64_t width = model.layer(model.layers.size() - 1).hidden;
  note_missing(top, seen, family.config, !heard.there);
  if (hears && seen.there) note_missing(top, heard, "audio_config", false);
  if (heard.there) {
    const TowerShape tower = family.hear(top, heard.fields, width);
    if (!top.ok()) return;
    model = with_tower(std::move(model), tower, seen.there);
  }
  if (seen.there) {
    const TowerShape tower = family.read(top, seen.fields, width);
    if (!top.ok()) return;
    model = with_tower(std::move(model), tower);
  }
  if (nested) judge_unread(text, model.family);
  if (seen.there) judge_unread(seen.fields, model.family);
  if (heard.there) judge_unread(heard.fields, model.family);
}

}  // namespace espalier::model
