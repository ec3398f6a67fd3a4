// SPDX-License-Identifier: Apache-2.0
// Reads Swin (Liu et al. 2021): windows of attention on a grid that shrinks from stage to stage, a natural model of
// unequal layers.
//
//   Stage s has width C·2^s, a grid of half the side, and windows of w² tokens with a table of relative biases,
//   (2w−1)²·heads per block. Between stages four neighbours merge: LayerNorm(4h) and a linear 4h → 2h.
//   Swin V2 (Liu et al. 2022) has norms after the halves, cosine scores with a scale for each head, biases from an MLP
//   2 → 512 → heads, and keys without bias. Merging normalises its output of 2h. The MLP of biases works once a block
//   on (2w−1)² pairs: parameters, hardly any work.
//
// Merging is counted at the start of the next stage's first block, where it runs on that stage's tokens.
#include <algorithm>
#include <string>
#include <utility>

#include "base/division.h"
#include "model/family.h"
#include "model/vision.h"

namespace espalier::model {
namespace {

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
  bool second = false;  ///< V2
};

/// Returns the parameters of a block's relative biases.
std::int64_t bias_parameters(const Swin& s, std::int64_t heads) {
  constexpr std::int64_t kInner = 512;
  return s.second ? 3 * kInner + times(kInner, heads) + heads : times(s.bias_side * s.bias_side, heads);
}

void add_merge(Operators& list, const Swin& s, std::int64_t hidden) {
  const std::int64_t merged = 2 * hidden;  // four neighbours of the narrower stage
  list.push_back(pool("merge.gather", merged));
  if (!s.second) list.push_back(norm("merge.norm", merged, 2));
  list.push_back(linear("merge.reduce", merged, hidden, TpSplit::none, false));
  if (s.second) list.push_back(norm("merge.norm", hidden, 2));
}

LayerKind swin_block(const Swin& s, std::size_t stage, bool merges) {
  const SwinStage& at = s.stages[stage];
  LayerKind kind = fixed_kind("swin.stage" + std::to_string(stage + 1) + (merges ? ".merge" : ""), LayerRole::block,
                              at.side * at.side, at.hidden);
  auto& list = kind.operators;
  if (merges) add_merge(list, s, at.hidden);
  if (!s.second) list.push_back(norm("attn.norm", at.hidden, 2));
  list.push_back(pool("attn.window_partition", at.hidden));
  add_attention(list, "attn", at.attention);
  for (Operator& op : list) {
    if (op.kind == OperatorKind::attention) op.parameters = bias_parameters(s, at.attention.heads);
    if (s.second && op.name == "attn.qkv" && at.attention.qkv_bias) op.parameters -= at.hidden;  // the keys' bias
  }
  list.push_back(pool("attn.window_reverse", at.hidden));
  if (s.dropout) list.push_back(dropout("attn.dropout", at.hidden));
  if (s.second) list.push_back(norm("attn.norm", at.hidden, 2));
  list.push_back(residual("attn.residual", at.hidden));
  if (!s.second) list.push_back(norm("mlp.norm", at.hidden, 2));
  add_mlp(list, "mlp.", {at.hidden, at.ffn, false, true, true, false});
  if (s.dropout) list.push_back(dropout("mlp.dropout", at.hidden));
  if (s.second) list.push_back(norm("mlp.norm", at.hidden, 2));
  list.push_back(residual("mlp.residual", at.hidden));
  return kind;
}

LayerKind swin_embedding(const Swin& s) {
  const SwinStage& first = s.stages.front();
  LayerKind kind = fixed_kind("embedding", LayerRole::embedding, first.side * first.side, first.hidden);
  kind.operators.push_back(patch_embedding(s.patch_features, first.hidden));
  kind.operators.push_back(norm("embed.norm", first.hidden, 2));
  if (s.absolute_positions)
    add_extra_embedding(kind.operators, "position", first.side * first.side + (s.second ? 1 : 0), first.hidden);
  if (s.dropout) kind.operators.push_back(dropout("embed.dropout", first.hidden));
  return kind;
}

void read_swin_stages(Fields& f, Swin& s, std::int64_t side, std::int64_t width) {
  const auto heads = f.reader().optional_int_list("num_heads", 1, SizeLimits::heads);
  const std::int64_t window = f.integer_or({"window_size"}, SizeLimits::pixels, 7);
  const double ratio = f.real({"mlp_ratio"}, 0.001, 1024, 4);
  const bool bias = f.flag("qkv_bias", true), score_dropout = f.positive_rate({"attention_probs_dropout_prob"}, 0);
  if (f.ok() && (s.depths.empty() || s.depths.size() > 16))
    f.fail("depths", "no usable list", "one number of blocks per stage, 1 to 16 stages");
  if (f.ok() && heads.size() != s.depths.size()) {
    f.fail("num_heads", std::to_string(heads.size()) + " entries",
           "one per stage, " + std::to_string(s.depths.size()) + " as in depths");
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
    stage.attention = {width,
                       heads[i],
                       heads[i],
                       std::max<std::int64_t>(width / heads[i], 1),
                       bias,
                       true,
                       0,
                       false,
                       stage.window * stage.window,
                       false,
                       score_dropout};
    stage.attention.qk_norm = s.second;
    stage.attention.qk_norm_weights = 0;
    if (side % stage.window != 0) {
      f.note(ModelNote::Kind::left_out, "window_size",
             "window_size: stage " + std::to_string(i + 1) + ": padding of the grid of " + std::to_string(side) +
                 " to windows is not counted");
    }
    s.stages.push_back(stage);
  }
}

}  // namespace

void read_swin(Fields& f, Model& model) {
  Swin s;
  s.second = model.family == "swinv2";
  const std::int64_t image = read_side(f, "image_size", 224), patch = read_side(f, "patch_size", 4);
  const std::int64_t channels = f.integer_or({"num_channels"}, 4096, 3);
  const std::int64_t width = f.integer({"embed_dim"}, SizeLimits::width);
  s.classes = read_classes(f);
  s.patch_features = channels * patch * patch;
  s.depths = f.reader().optional_int_list("depths", 1, SizeLimits::layers);
  s.dropout = f.positive_rate({"hidden_dropout_prob"}, 0);
  s.absolute_positions = f.flag("use_absolute_embeddings", false);
  read_swin_stages(f, s, std::max<std::int64_t>(ceil_div(image, patch), 1), width);
  f.reader().ignore({"hidden_act", "encoder_stride", "hidden_size", "num_layers", "path_norm", "patch_norm", "out_features",
                     "out_indices", "stage_names", "pretrained_window_sizes"});
  if (f.positive_rate({"drop_path_rate"}, 0.1)) {
    f.note(ModelNote::Kind::left_out, "drop_path_rate",
           "drop_path_rate: whole samples that skip a block are counted as computed");
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
