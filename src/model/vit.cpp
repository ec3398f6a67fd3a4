// SPDX-License-Identifier: Apache-2.0
// Reads the vision transformer (Dosovitskiy et al. 2020) as an image classifier. DINOv2 (Oquab et al. 2023) adds
// layer scales h each, a mask token h and a classifier on class token and mean, 2h wide.
//
//   tokens      (image/patch)² + 1
//   embedding   of patches c·p²·h + h, class token h, positions tokens·h
//   blocks      as GPT's (12h² + 13h for f = 4h)
//   head        final LayerNorm; classifier on the class token
#include <string>
#include <utility>

#include "model/family.h"
#include "model/vision.h"

namespace espalier::model {
namespace {

struct Vit {
  std::int64_t layers = 0, hidden = 0, ffn = 0, patch_features = 0, patches = 0, classes = 0;
  AttentionShape attention;
  bool dropout = false, scaled = false, gated = false;
  std::int64_t tokens = 1;  ///< learned tokens besides the patches; only the first takes part
};

/// Adds DINOv2's scale of a half's output.
void add_scale(Operators& list, const Vit& v, const std::string& name) {
  if (!v.scaled) return;
  list.push_back(activation(name + ".scale", v.hidden, v.hidden, TpSplit::none));
  list.back().parameters = list.back().parameters_unsplit = v.hidden;
}

LayerKind vit_embedding(const Vit& v) {
  LayerKind kind = fixed_kind("embedding", LayerRole::embedding, v.patches, v.hidden);
  kind.boundary_tokens_fixed = v.patches + 1;
  auto& list = kind.operators;
  list.push_back(patch_embedding(v.patch_features, v.hidden));
  add_extra_embedding(list, "position", v.patches + 1, v.hidden);
  Operator& positions = list[list.size() - 2];
  positions.parameters += v.tokens * v.hidden;  // the class token, and DINOv2's mask token
  positions.parameters_unsplit = positions.parameters;
  if (v.dropout) list.push_back(dropout("embed.dropout", v.hidden));
  return kind;
}

LayerKind vit_block(const Vit& v) {
  LayerKind kind = fixed_kind("encoder", LayerRole::block, v.patches + 1, v.hidden);
  auto& list = kind.operators;
  list.push_back(norm("attn.norm", v.hidden, 2));
  add_attention(list, "attn", v.attention);
  add_scale(list, v, "attn");
  if (v.dropout) list.push_back(dropout("attn.dropout", v.hidden));
  list.push_back(residual("attn.residual", v.hidden));
  list.push_back(norm("mlp.norm", v.hidden, 2));
  add_mlp(list, "mlp.", {v.hidden, v.ffn, v.gated, true, true, false});
  add_scale(list, v, "mlp");
  if (v.dropout) list.push_back(dropout("mlp.dropout", v.hidden));
  list.push_back(residual("mlp.residual", v.hidden));
  return kind;
}

/// Reads DINOv2: the MLP's width is a multiple of the model's. A gated MLP has two thirds of it, rounded up to 8.
void read_dino(Fields& f, Vit& v) {
  v.scaled = true;
  v.gated = f.flag("use_swiglu_ffn", false);
  v.tokens = f.flag("use_mask_token", true) ? 2 : 1;
  v.ffn = times(v.hidden, f.integer_or({"mlp_ratio"}, 1024, 4));
  if (v.gated) v.ffn = (v.ffn * 2 / 3 + 7) / 8 * 8;
  f.reader().ignore({"apply_layernorm", "drop_path_rate", "layerscale_value", "out_features", "out_indices", "stage_names",
                     "reshape_hidden_states"});
}

}  // namespace

void read_vit(Fields& f, Model& model) {
  Vit v;
  const bool dino = model.family == "dinov2";
  v.hidden = f.integer({"hidden_size"}, SizeLimits::width);
  v.layers = f.integer({"num_hidden_layers"}, SizeLimits::layers);
  if (dino)
    read_dino(f, v);
  else
    v.ffn = f.integer({"intermediate_size"}, SizeLimits::width);
  const std::int64_t image = read_side(f, "image_size", 224), patch = read_side(f, "patch_size", 16);
  const std::int64_t channels = f.integer_or({"num_channels"}, 4096, 3);
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
  LayerKind head = classifier(v.patches + 1, v.hidden, v.classes);
  if (dino)
    for (Operator& op : head.operators)
      if (op.kind == OperatorKind::linear) op = linear(op.name, 2 * v.hidden, v.classes, TpSplit::none, true);
  layers.add(std::move(head));
}

}  // namespace espalier::model
