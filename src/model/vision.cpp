// SPDX-License-Identifier: Apache-2.0
// Image classifiers. Token counts follow from the image size, so their layers have fixed streams.
//
//   vit   tokens (image/patch)² + 1; patch embedding c·p²·h + h, class token h, positions (tokens)·h; blocks as GPT's (12h² + 13h for
//         f = 4h); final LayerNorm; classifier on the class token                                (Dosovitskiy et al. 2020)
//   swin  stage s has width C·2^s, a grid of half the side, windows of w² tokens with a table of relative biases (2w−1)²·heads per
//         block; between stages four neighbours merge: LayerNorm(4h) and a linear 4h → 2h          (Liu et al. 2021)
//
// Swin's merging is counted at the start of the next stage's first block, where it runs on that stage's tokens. The head works once
// a sample: its stream is one token, and its norm and pooling are as wide as all tokens together.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"

namespace espalier::model {
namespace {

LayerKind fixed_kind(std::string name, LayerRole role, std::int64_t tokens, std::int64_t hidden) {
  LayerKind kind;
  kind.name = std::move(name);
  kind.role = role;
  kind.stream = TokenStream::fixed;
  kind.fixed_tokens = kind.boundary_tokens_fixed = tokens;
  kind.hidden = hidden;
  return kind;
}

Operator patch_embedding(std::int64_t in, std::int64_t hidden) {
  Operator op = linear("embed.patch", in, hidden, TpSplit::none, true);
  op.kind = OperatorKind::patch_embed;
  return op;
}

/// Final norm over all tokens, reduction to one, classifier, loss.
LayerKind classifier(std::int64_t tokens, std::int64_t hidden, std::int64_t classes) {
  LayerKind kind = fixed_kind("head", LayerRole::head, 1, hidden);
  Operator final_norm = norm("head.norm", tokens * hidden, 0);
  final_norm.parameters = final_norm.parameters_unsplit = 2 * hidden;
  kind.operators = {std::move(final_norm), pool("head.pool", tokens * hidden),
                    linear("head.logits", hidden, classes, TpSplit::none, true), cross_entropy(classes, TpSplit::none)};
  return kind;
}

/// Classes: num_labels, or the length of id2label; the configuration class assumes 2.
std::int64_t read_classes(Fields& f) {
  const base::Node* labels = f.reader().find("id2label");
  if (labels != nullptr && !labels->members.empty() && !f.reader().has("num_labels")) {
    return static_cast<std::int64_t>(labels->members.size());
  }
  return f.integer_or({"num_labels"}, SizeLimits::vocabulary, 2, "default of the family");
}

/// Height and width may differ: [height, width] is refused unless square.
std::int64_t read_side(Fields& f, std::string_view key, std::int64_t fallback) {
  const base::Node* node = f.reader().find(key);
  if (node == nullptr || node->kind != base::NodeKind::sequence) {
    return f.integer_or({key}, SizeLimits::pixels, fallback, "default of the family");
  }
  const auto sides = f.reader().optional_int_list(key, 1, SizeLimits::pixels);
  if (sides.size() == 2 && sides[0] == sides[1]) return sides[0];
  f.fail(key, "a list", "one number, or two equal ones", "only square images are planned");
  return 1;
}

// ---- vit -----------------------------------------------------------------------------------------------------------------------

struct Vit {
  std::int64_t layers = 0, hidden = 0, ffn = 0, patch_features = 0, patches = 0, classes = 0;
  AttentionShape attention;
  bool dropout = false;
};

LayerKind vit_embedding(const Vit& v) {
  LayerKind kind = fixed_kind("embedding", LayerRole::embedding, v.patches, v.hidden);
  kind.boundary_tokens_fixed = v.patches + 1;
  auto& list = kind.operators;
  list.push_back(patch_embedding(v.patch_features, v.hidden));
  add_extra_embedding(list, "position", v.patches + 1, v.hidden);
  Operator& positions = list[list.size() - 2];
  positions.parameters += v.hidden;  // the class token
  positions.parameters_unsplit = positions.parameters;
  if (v.dropout) list.push_back(dropout("embed.dropout", v.hidden));
  return kind;
}

LayerKind vit_block(const Vit& v) {
  LayerKind kind = fixed_kind("encoder", LayerRole::block, v.patches + 1, v.hidden);
  auto& list = kind.operators;
  list.push_back(norm("attn.norm", v.hidden, 2));
  add_attention(list, "attn", v.attention);
  if (v.dropout) list.push_back(dropout("attn.dropout", v.hidden));
  list.push_back(residual("attn.residual", v.hidden));
  list.push_back(norm("mlp.norm", v.hidden, 2));
  add_mlp(list, "mlp.", {v.hidden, v.ffn, false, true, true, false});
  if (v.dropout) list.push_back(dropout("mlp.dropout", v.hidden));
  list.push_back(residual("mlp.residual", v.hidden));
  return kind;
}

// ---- swin ----------------------------------------------------------------------------------------------------------------------

struct SwinStage {
  std::int64_t hidden = 0, ffn = 0, side = 0, window = 0;  ///< window side in tokens
  AttentionShape attention;
};

struct Swin {
  std::int64_t patch_features = 0, classes = 0;
  std::vector<std::int64_t> depths;
  std::vector<SwinStage> stages;
  std::int64_t bias_side = 0;  ///< 2·window_size − 1 of the file: the table does not shrink with the window
  bool dropout = false, absolute_positions = false;
};

LayerKind swin_block(const Swin& s, std::size_t stage, bool merges) {
  const SwinStage& at = s.stages[stage];
  LayerKind kind = fixed_kind("swin.stage" + std::to_string(stage + 1) + (merges ? ".merge" : ""), LayerRole::block,
                              at.side * at.side, at.hidden);
  auto& list = kind.operators;
  if (merges) {
    const std::int64_t merged = 2 * at.hidden;  // four neighbours of the narrower stage
    list.push_back(pool("merge.gather", merged));
    list.push_back(norm("merge.norm", merged, 2));
    list.push_back(linear("merge.reduce", merged, at.hidden, TpSplit::none, false));
  }
  list.push_back(norm("attn.norm", at.hidden, 2));
  list.push_back(pool("attn.window_partition", at.hidden));
  add_attention(list, "attn", at.attention);
  for (Operator& op : list) {
    if (op.kind == OperatorKind::attention) op.parameters = times(s.bias_side * s.bias_side, at.attention.heads);
  }
  list.push_back(pool("attn.window_reverse", at.hidden));
  if (s.dropout) list.push_back(dropout("attn.dropout", at.hidden));
  list.push_back(residual("attn.residual", at.hidden));
  list.push_back(norm("mlp.norm", at.hidden, 2));
  add_mlp(list, "mlp.", {at.hidden, at.ffn, false, true, true, false});
  if (s.dropout) list.push_back(dropout("mlp.dropout", at.hidden));
  list.push_back(residual("mlp.residual", at.hidden));
  return kind;
}

LayerKind swin_embedding(const Swin& s) {
  const SwinStage& first = s.stages.front();
  LayerKind kind = fixed_kind("embedding", LayerRole::embedding, first.side * first.side, first.hidden);
  kind.operators.push_back(patch_embedding(s.patch_features, first.hidden));
  kind.operators.push_back(norm("embed.norm", first.hidden, 2));
  if (s.absolute_positions) add_extra_embedding(kind.operators, "position", first.side * first.side, first.hidden);
  if (s.dropout) kind.operators.push_back(dropout("embed.dropout", first.hidden));
  return kind;
}

void read_swin_stages(Fields& f, Swin& s, std::int64_t side, std::int64_t width) {
  const auto heads = f.reader().optional_int_list("num_heads", 1, SizeLimits::heads);
  const std::int64_t window = f.integer_or({"window_size"}, SizeLimits::pixels, 7, "default of the family");
  const double ratio = f.real({"mlp_ratio"}, 0.001, 1024, 4);
  const bool bias = f.flag("qkv_bias", true), score_dropout = f.positive_rate({"attention_probs_dropout_prob"}, 0);
  if (f.ok() && (s.depths.empty() || s.depths.size() > 16)) f.fail("depths", "no usable list", "one number of blocks per stage, 1 to 16 stages");
  if (f.ok() && heads.size() != s.depths.size()) {
    f.fail("num_heads", std::to_string(heads.size()) + " entries", "one per stage, " + std::to_string(s.depths.size()) + " as in depths");
  }
  s.bias_side = 2 * window - 1;
  for (std::size_t i = 0; f.ok() && i < s.depths.size(); ++i, width *= 2, side = (side + 1) / 2) {
    if (width > SizeLimits::width) return f.fail("embed_dim", width, "a last stage of at most 2^24 features");
    SwinStage stage;
    stage.hidden = width;
    stage.ffn = static_cast<std::int64_t>(ratio * static_cast<double>(width));
    stage.side = side;
    stage.window = std::min(window, side);
    f.require_divides("num_heads", heads[i], "width of stage " + std::to_string(i + 1), width);
    stage.attention = {width, heads[i], heads[i], std::max<std::int64_t>(width / heads[i], 1), bias, true, 0, false,
                       stage.window * stage.window, false, score_dropout};
    if (side % stage.window != 0) {
      f.note(ModelNote::Kind::derived, "window_size", "stage " + std::to_string(i + 1) + ": padding of the grid of " +
             std::to_string(side) + " to windows is not counted");
    }
    s.stages.push_back(stage);
  }
}

}  // namespace

void read_vit(Fields& f, Model& model) {
  Vit v;
  v.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  v.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  v.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  const std::int64_t image = read_side(f, "image_size", 224), patch = read_side(f, "patch_size", 16);
  const std::int64_t channels = f.integer_or({"num_channels"}, 4096, 3, "default of the family");
  v.classes = read_classes(f);
  v.dropout = f.positive_rate({"hidden_dropout_prob"}, 0);
  f.require_divides("patch_size", patch, "image_size", image);
  v.patch_features = channels * patch * patch;
  v.patches = (image / patch) * (image / patch);
  AttentionShape& a = v.attention;
  a.hidden = v.hidden;
  a.heads = a.kv_heads = f.integer({"num_attention_heads"}, SizeLimits::heads);
  f.require_divides("num_attention_heads", a.heads, "hidden_size", v.hidden);
  a.head_dim = v.hidden / a.heads;
  a.qkv_bias = f.flag("qkv_bias", true);
  a.out_bias = true;
  a.causal = false;
  a.score_dropout = f.positive_rate({"attention_probs_dropout_prob"}, 0);
  f.reader().ignore({"hidden_act", "encoder_stride", "pooler_act", "pooler_output_size"});
  if (!f.ok()) return;

  model.vision = true;
  LayerList layers(model);
  layers.add(vit_embedding(v));
  for (std::int64_t i = 0; i < v.layers; ++i) layers.add(vit_block(v));
  layers.add(classifier(v.patches + 1, v.hidden, v.classes));
}

void read_swin(Fields& f, Model& model) {
  Swin s;
  const std::int64_t image = read_side(f, "image_size", 224), patch = read_side(f, "patch_size", 4);
  const std::int64_t channels = f.integer_or({"num_channels"}, 4096, 3, "default of the family");
  const std::int64_t width = f.integer({"embed_dim"}, SizeLimits::width);
  s.classes = read_classes(f);
  s.patch_features = channels * patch * patch;
  s.depths = f.reader().optional_int_list("depths", 1, SizeLimits::layers);
  s.dropout = f.positive_rate({"hidden_dropout_prob"}, 0);
  s.absolute_positions = f.flag("use_absolute_embeddings", false);
  read_swin_stages(f, s, std::max<std::int64_t>((image + patch - 1) / patch, 1), width);
  f.reader().ignore({"hidden_act", "encoder_stride", "hidden_size", "num_layers", "path_norm", "patch_norm", "out_features", "out_indices",
                     "stage_names"});
  if (f.positive_rate({"drop_path_rate"}, 0.1)) {
    f.note(ModelNote::Kind::ignored, "drop_path_rate", "whole samples that skip a block are counted as computed");
  }
  if (!f.ok()) return;

  model.vision = true;
  LayerList layers(model);
  layers.add(swin_embedding(s));
  for (std::size_t stage = 0; stage < s.stages.size(); ++stage) {
    for (std::int64_t i = 0; i < s.depths[stage]; ++i) layers.add(swin_block(s, stage, stage > 0 && i == 0));
  }
  const SwinStage& last = s.stages.back();
  layers.add(classifier(last.side * last.side, last.hidden, s.classes));
}

}  // namespace espalier::model
