// SPDX-License-Identifier: Apache-2.0
// Reads pairs of towers under a contrastive loss: CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023). One tower
// encodes text (LayerNorm, biases, learned positions; causal in CLIP), the other images (tower.h). Each ends in one
// vector a sample.
//
//   text    V·h + P·h + blocks (4h² + 2hf + 9h + f) + 2h + h·p (SigLIP: + p)
//   image   tower + w·p (SigLIP: a pooling head of 4w² + 2wf + …).
//
// The order is embedding (text), the tower (the embedded text travels along), its pooling and projection (one token
// an image), blocks of text, head. The head's work counts one token a sample. It leaves out the products of all
// vectors of a batch with each other, 2·p·batch a sample. It also leaves out the travel of an image's vector of p
// features past the text.
#include <algorithm>
#include <string>
#include <utility>

#include "model/family.h"
#include "model/tower.h"
#include "model/vision.h"

namespace espalier::model {
namespace {

struct TextTower {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0, positions = 0;
  AttentionShape attention;
};

TextTower read_text(Fields& f, bool clip) {
  TextTower t;
  t.hidden = f.integer_or({"hidden_size"}, SizeLimits::width, clip ? 512 : 768);
  t.layers = f.integer_or({"num_hidden_layers"}, SizeLimits::layers, 12);
  t.ffn = f.integer_or({"intermediate_size"}, SizeLimits::width, clip ? 2048 : 3072);
  t.vocabulary = f.integer_or({"vocab_size"}, SizeLimits::vocabulary, clip ? 49408 : 32000);
  t.positions = f.integer_or({"max_position_embeddings"}, SizeLimits::tokens, clip ? 77 : 64);
  AttentionShape& a = t.attention;
  a.hidden = t.hidden;
  a.heads = a.kv_heads = f.integer_or({"num_attention_heads"}, SizeLimits::heads, clip ? 8 : 12);
  f.require_divides("num_attention_heads", a.heads, "hidden_size", t.hidden);
  a.head_dim = std::max<std::int64_t>(1, t.hidden / a.heads);
  a.qkv_bias = a.out_bias = true;
  a.causal = clip;
  a.score_dropout = f.positive_rate({"attention_dropout"}, 0);
  f.reader().ignore({"hidden_act", "initializer_factor", "projection_dim"});
  return t;
}

LayerKind text_block(const TextTower& t, bool last) {
  LayerKind kind = make_kind(last ? "text.last" : "text", LayerRole::block, t.hidden);
  Operators mixer, mlp;
  add_attention(mixer, "attn", t.attention);
  add_mlp(mlp, "mlp.", {t.hidden, t.ffn, false, true, true, false});
  add_block(kind.operators, {t.hidden, 2, NormPlace::before, false}, std::move(mixer), std::move(mlp));
  if (last) kind.operators.push_back(norm("final.norm", t.hidden, 2));
  return kind;
}

/// Makes the head: one token of the text, its projection, the loss; `scalars`: scale and shift of the logits.
LayerKind head(const TextTower& t, std::int64_t projected, bool bias, std::int64_t scalars) {
  LayerKind kind = fixed_kind("head", LayerRole::head, 1, t.hidden);
  Operator chosen = pool("head.pool", t.hidden);
  chosen.parameters = chosen.parameters_unsplit = scalars;
  kind.operators = {std::move(chosen), linear("head.projection", t.hidden, projected, TpSplit::none, bias),
                    cross_entropy(projected, TpSplit::none)};
  return kind;
}

Model text_model(Model model, const TextTower& t, LayerKind last) {
  model.vocabulary = t.vocabulary;
  model.max_positions = t.positions;
  LayerList layers(model);
  LayerKind embedding = make_kind("embedding", LayerRole::embedding, t.hidden);
  add_token_embedding(embedding.operators, t.vocabulary, t.hidden);
  add_extra_embedding(embedding.operators, "position", t.positions, t.hidden);
  layers.add(std::move(embedding));
  for (std::int64_t i = 0; i < t.layers; ++i) layers.add(text_block(t, i + 1 == t.layers));
  layers.add(std::move(last));
  return model;
}

/// Returns CLIP's projection of the class token's features, after a norm.
Operators class_projection(const TowerShape& t, std::int64_t projected) {
  return {pool("projector.class", times(t.merge, t.hidden)), norm("projector.norm", t.hidden, 2),
          linear("projector.linear", t.hidden, projected, TpSplit::none, false)};
}

/// Returns SigLIP's pooling: one learned query attends to all patches, and an MLP follows. Keys and values are made
/// of every patch of the image.
Operators attention_pooling(const TowerShape& t) {
  const std::int64_t w = t.hidden, all = times(t.merge, w);
  Operator query = linear("projector.query", w, w, TpSplit::none, true);
  query.parameters += w;  // the query itself
  query.parameters_unsplit = query.parameters;
  Operator pairs = linear("projector.kv", all, 2 * w, TpSplit::none, true);
  pairs.parameters = pairs.parameters_unsplit = 2 * times(w, w) + 2 * w;
  Operators list = {pool("projector.patches", all),
                    std::move(query),
                    std::move(pairs),
                    pool("projector.attend", times(2, all)),
                    linear("projector.out", w, w, TpSplit::none, true),
                    norm("projector.norm", w, 2)};
  add_mlp(list, "projector.", {w, t.ffn, false, true, true, false});
  list.push_back(residual("projector.residual", w));
  return list;
}

}  // namespace

void read_image_text_pair(Fields& f, Model& model) {
  const bool clip = model.family == "clip";
  base::Reader text_reader = f.reader().child("text_config", true), vision_reader = f.reader().child("vision_config", true);
  f.reader().ignore(
      {"logit_scale_init_value", "initializer_factor", "text_config_dict", "vision_config_dict", "tie_word_embeddings"});
  const std::int64_t shared = clip ? f.integer_or({"projection_dim"}, SizeLimits::width, 512) : 0;
  if (!f.ok()) return;
  Fields text_fields(text_reader, model.notes), vision_fields(vision_reader, model.notes);
  const TextTower text = read_text(text_fields, clip);
  const std::int64_t projected =
      clip ? shared
           : text_fields.integer_nullable({"projection_size"}, SizeLimits::width, text.hidden, text.hidden, "hidden_size");
  TowerShape tower = clip ? read_clip_tower(vision_fields) : read_siglip_tower(vision_fields, true);
  if (f.ok() && !clip && projected != tower.hidden)
    text_fields.fail("projection_size", projected, "the width of the images' vectors, " + std::to_string(tower.hidden));
  if (f.ok() && !clip && tower.unused == 0)
    vision_fields.fail("vision_use_head", "false", "a pooling head, because the loss compares its vectors");
  if (!f.ok()) return;
  tower.merge = tower.tokens;  // all patches of an image become one token
  tower.unused = 0;
  if (clip) tower.last_norm = 0;  // the norm works only on the class token
  tower.projectors = {{"projector", clip ? class_projection(tower, projected) : attention_pooling(tower)}};
  model = with_tower(text_model(std::move(model), text, head(text, projected, !clip, clip ? 1 : 2)), tower);
  judge_unread(text_fields, model.family);
  judge_unread(vision_fields, model.family);
}

}  // namespace espalier::model
