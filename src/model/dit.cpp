// SPDX-License-Identifier: Apache-2.0
// Reads diffusion transformers (Peebles and Xie 2022, arXiv 2212.09748) as built by the class DiTTransformer2DModel
// of Hugging Face diffusers 0.42. Their files have `_class_name` instead of model_type. The model has patches of a
// latent image, and blocks whose norms are shifted, scaled and gated by step and class.
//
//   block   4h² + 4h + 2hf + f + h (f = 4h) + adaptive norm 6h² + 6h + its own embeddings of step (256h + h² + 2h) and
//           class ((classes + 1)·h)
//   head    2h² + 2h + (h + 1)·p²·c                       h = heads · head width, p side of a patch, c output channels
//
// Steps and classes are one vector a sample: their products are parameters here and hardly any work. Positions are
// computed.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"
#include "model/vision.h"

namespace espalier::model {
namespace {

struct DiT {
  std::int64_t layers = 0, hidden = 0, tokens = 0, patch = 0, channels = 0, out_channels = 0, classes = 0;
  bool dropout = false;
  AttentionShape attention;
};

/// Returns x · (1 + scale) + shift, or x · gate, with vectors of the sample.
Operator modulate(const std::string& name, std::int64_t width) { return activation(name, width, width, TpSplit::none); }

LayerKind block(const DiT& d) {
  constexpr std::int64_t kSteps = 256;  // sines of the step
  const std::int64_t h = d.hidden;
  LayerKind kind = fixed_kind("dit", LayerRole::block, d.tokens, h);
  auto& list = kind.operators;
  Operator condition = pool("condition", h);  // works on one vector a sample
  condition.parameters = condition.parameters_unsplit =
      times(6 * h, h) + 6 * h + times(kSteps, h) + h + times(h, h) + h + times(d.classes + 1, h);
  list.push_back(std::move(condition));
  list.push_back(norm("attn.norm", h, 0));
  list.push_back(modulate("attn.shift", h));
  add_attention(list, "attn", d.attention);
  if (d.dropout) list.push_back(dropout("attn.dropout", h));
  list.push_back(modulate("attn.gate", h));
  list.push_back(residual("attn.residual", h));
  list.push_back(norm("mlp.norm", h, 0));
  list.push_back(modulate("mlp.shift", h));
  add_mlp(list, "mlp.", {h, 4 * h, false, true, true, d.dropout});
  list.push_back(modulate("mlp.gate", h));
  list.push_back(residual("mlp.residual", h));
  return kind;
}

LayerKind head(const DiT& d) {
  const std::int64_t h = d.hidden, out = d.patch * d.patch * d.out_channels;
  LayerKind kind = fixed_kind("head", LayerRole::head, d.tokens, h);
  Operator condition = pool("head.condition", h);
  condition.parameters = condition.parameters_unsplit = times(2 * h, h) + 2 * h;
  kind.operators = {std::move(condition), norm("head.norm", h, 0), modulate("head.shift", h),
                    linear("head.patches", h, out, TpSplit::none, true), cross_entropy(out, TpSplit::none)};
  return kind;
}

void expect_text(Fields& f, std::string_view key, const std::string& only) {
  const std::string found = f.text({key}, only);
  if (f.ok() && found != only) f.fail(key, found.substr(0, 60), only, "other forms have other layers");
}

}  // namespace

void read_dit(Fields& f, Model& model) {
  DiT d;
  AttentionShape& a = d.attention;
  a.heads = a.kv_heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, 16);
  a.head_dim = f.integer_or({"attention_head_dim"}, SizeLimits::head_dim, 72);
  d.hidden = a.hidden = times(a.heads, a.head_dim);
  if (f.ok() && d.hidden > SizeLimits::width) f.fail("attention_head_dim", a.head_dim, "heads of at most 2^24 features in all");
  a.qkv_bias = f.flag("attention_bias", true);
  a.out_bias = true;
  a.causal = false;
  d.layers = f.integer_or({"num_layers"}, SizeLimits::layers, 28);
  d.dropout = f.positive_rate({"dropout"}, 0);
  d.patch = f.integer_or({"patch_size"}, SizeLimits::pixels, 2);
  const std::int64_t side = f.integer_or({"sample_size"}, SizeLimits::pixels, 32),
                     across = std::max<std::int64_t>(1, side / d.patch);
  f.require_divides("patch_size", d.patch, "sample_size", side);
  d.tokens = across * across;
  d.channels = f.integer_or({"in_channels"}, 4096, 4);
  d.out_channels = f.integer_nullable({"out_channels"}, 4096, d.channels, d.channels, "in_channels");
  d.classes = f.integer_or({"num_embeds_ada_norm"}, SizeLimits::vocabulary, 1000);
  expect_text(f, "norm_type", "ada_norm_zero");
  expect_text(f, "activation_fn", "gelu-approximate");
  if (f.flag("norm_elementwise_affine", false)) f.fail("norm_elementwise_affine", "true", "norms without weights");
  f.reader().ignore({"upcast_attention", "norm_num_groups", "norm_eps"});
  if (!f.ok()) return;

  model.vision = true;
  LayerList layers(model);
  LayerKind embedding = fixed_kind("embedding", LayerRole::embedding, d.tokens, d.hidden);
  embedding.operators = {patch_embedding(d.channels * d.patch * d.patch, d.hidden), residual("embed.position", d.hidden)};
  layers.add(std::move(embedding));
  for (std::int64_t i = 0; i < d.layers; ++i) layers.add(block(d));
  layers.add(head(d));
}

}  // namespace espalier::model
