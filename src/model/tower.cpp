// SPDX-License-Identifier: Apache-2.0
#include "model/tower.h"

#include <iterator>

namespace espalier::model {
namespace {

Operator scale(std::string name, std::int64_t width) {
  Operator op = activation(std::move(name), width, width, TpSplit::none);
  op.parameters = op.parameters_unsplit = width;
  return op;
}

void add_patches(Operators& list, const TowerShape& t) {
  if (t.bins > 0) return add_sound_convolutions(list, t.bins, t.hidden);
  Operator patches = linear("tower.patches", t.patch_features, t.hidden, TpSplit::none, t.patch_bias);
  patches.kind = OperatorKind::patch_embed;
  patches.parameters += t.class_token;
  patches.parameters_unsplit = patches.parameters;
  list.push_back(std::move(patches));
  if (t.positions > 0) add_extra_embedding(list, "position", t.positions, t.hidden);
  if (t.first_norm > 0) list.push_back(norm("tower.first_norm", t.hidden, t.first_norm));
}

void add_halves(Operators& list, const TowerShape& t, std::int64_t piece) {
  AttentionShape attention = t.attention;
  attention.hidden = t.hidden;
  attention.causal = false;
  if (piece > 0) attention.chunk = piece;
  list.push_back(norm("attn.norm", t.hidden, t.norm_weights));
  add_attention(list, "attn", attention);
  if (attention.qkv_bias && !t.key_bias)
    for (Operator& op : list)
      if (op.name == "attn.qkv") op.parameters -= attention.kv_heads * attention.head_dim;
  if (t.sandwich) list.push_back(norm("attn.post_norm", t.hidden, t.norm_weights));
  if (t.scaled) list.push_back(scale("attn.scale", t.hidden));
  list.push_back(residual("attn.residual", t.hidden));
  list.push_back(norm("mlp.norm", t.hidden, t.norm_weights));
  add_mlp(list, "mlp.", {t.hidden, t.ffn, t.gated, t.mlp_bias, t.mlp_bias, false});
  if (t.sandwich) list.push_back(norm("mlp.post_norm", t.hidden, t.norm_weights));
  if (t.scaled) list.push_back(scale("mlp.scale", t.hidden));
  list.push_back(residual("mlp.residual", t.hidden));
}

/// Describes the place of a tower's layers: their sequence, and the features that travel along past them.
struct TowerPlace {
  bool beside = false;  ///< another tower comes before
  std::int64_t travelling = 0;
};

LayerKind placed(LayerKind kind, const TowerPlace& place) {
  if (place.beside) kind.name.insert(kind.name.starts_with("projector") ? 9 : 5, ".sound");
  kind.role = LayerRole::block;
  kind.stream = place.beside ? TokenStream::decoder : TokenStream::encoder;
  kind.carried = TokenStream::main;
  kind.carried_hidden = place.travelling;
  return kind;
}

LayerKind tower_block(const TowerShape& t, std::int64_t i) {
  const bool first = i == 0, last = i + 1 == t.layers;
  const std::int64_t piece = t.pieces.empty() ? 0 : t.pieces[static_cast<std::size_t>(i)];
  std::string name = "tower";
  if (piece > 0) name += ".window";
  if (first) name += ".first";
  if (last) name += ".last";
  LayerKind kind = make_kind(std::move(name), LayerRole::block, t.hidden);
  if (first) add_patches(kind.operators, t);
  add_halves(kind.operators, t, piece);
  if (last && t.last_norm > 0) kind.operators.push_back(norm("tower.last_norm", t.hidden, t.last_norm));
  if (last && t.unused > 0) {
    kind.operators.push_back(pool("tower.unused_head", t.hidden));
    kind.operators.back().parameters = kind.operators.back().parameters_unsplit = t.unused;
  }
  return kind;
}

LayerKind projector(const TowerShape& t, const std::string& name, const Operators& operators, std::int64_t text_width) {
  LayerKind kind = make_kind(name, LayerRole::block, text_width);
  kind.tokens_divisor = t.merge;
  kind.operators = operators;
  return kind;
}

}  // namespace

Model with_tower(Model text, const TowerShape& tower, bool beside) {
  const std::vector<LayerKind> kinds = std::move(text.kinds);
  const std::vector<std::int32_t> order = std::move(text.layers);
  const LayerKind& embedding = kinds[static_cast<std::size_t>(order.front())];
  // Streams (gemma3n) are made of it.
  const std::int64_t width = kinds[static_cast<std::size_t>(order.back())].hidden;
  const TowerPlace place{beside, embedding.hidden + embedding.carried_hidden};
  Model model = std::move(text);
  model.kinds.clear();
  model.layers.clear();
  LayerList layers(model);
  layers.add(kinds[static_cast<std::size_t>(order.front())]);
  for (const LayerKind& block : tower.blocks) layers.add(placed(block, place));
  for (std::int64_t i = 0; tower.blocks.empty() && i < tower.layers; ++i) layers.add(placed(tower_block(tower, i), place));
  for (const auto& [name, operators] : tower.projectors) layers.add(placed(projector(tower, name, operators, width), place));
  for (auto at = std::next(order.begin()); at != order.end(); ++at) layers.add(kinds[static_cast<std::size_t>(*at)]);
  model.tower = true;
  if (!beside) model.encoder_tokens = tower.tokens;
  return model;
}

}  // namespace espalier::model
