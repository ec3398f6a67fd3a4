// SPDX-License-Identifier: Apache-2.0
// Reads MobileNet-V5 (timm: mobilenetv5_300m_enc), the image tower of Gemma 3n: units of convolutions and attention
// over an image that shrinks from stage to stage. The file names the network. Its sizes are those of timm 1.0
// (timm/models/mobilenetv5.py), for images of 768 by 768.
//
//   fused       3×3 c → e·c, pointwise e·c → o, two norms: 9·c·e·c + e·c·o + e·c + o
//   inverted    [depthwise a×a] pointwise c → e·c [depthwise k×k] pointwise → o, a norm each, a scale o
//   attention   norm c, queries c → h·d, one key and value c → d each (on a quarter of the places: depthwise 3×3 and
//               norm before), out, a scale c
//   fusion      features of stages 3 and 4, concatenated on the places of stage 3: pointwise 1920 → 3840 → 2048, norms,
//               a mean over 3 by 3 places.
//
// Tokens are the places of the first convolution, 384² an image; a stage of half the side has a quarter of them
// (tokens_divisor). An operator that reads more places than it writes reads proportionally more features. The
// features that stage 3 passes to the fusion are part of stage 4's output. Kernels over 3×3 places are products over
// their unfolded input.
#include <string>
#include <utility>

#include "model/state_space.h"
#include "model/tower.h"

namespace espalier::model {
namespace {

enum class Unit { fused, inverted, attention };

/// Describes `count` equal units; `shrinks`: the side is halved after it.
struct MobilenetStage {
  Unit unit;
  std::int64_t count, in, out, expand;
  std::int64_t start, middle;  ///< sides of depthwise kernels; 0 = none
  bool shrinks;
  std::int64_t heads, width;  ///< number and width of attention heads
  bool few_keys;              ///< keys and values on a quarter of the places
};

constexpr std::int64_t kStem = 64, kSide = 384, kOut = 2048, kThird = 640, kFourth = 1280, kPairsOfThird = 14,
                       kPairsOfFourth = 19;

constexpr MobilenetStage inverted(std::int64_t in, std::int64_t out, std::int64_t expand, std::int64_t start,
                                  std::int64_t middle = 0, bool shrinks = false, std::int64_t count = 1) {
  return {Unit::inverted, count, in, out, expand, start, middle, shrinks, 0, 0, false};
}

constexpr MobilenetStage kStages[] = {
    {Unit::fused, 1, kStem, 128, 4, 0, 0, true, 0, 0, false},
    {Unit::fused, 2, 128, 128, 4, 0, 0, false, 0, 0, false},
    inverted(128, 256, 6, 3, 5, true),
    inverted(256, 256, 4, 5),
    inverted(256, 256, 4, 3),
    inverted(256, 256, 4, 5),
    inverted(256, 256, 4, 3),
    inverted(256, kThird, 6, 5, 5, true),
    inverted(kThird, kThird, 4, 5, 0, false, 7),
    inverted(kThird, kThird, 1, 0),
    {Unit::attention, kPairsOfThird, kThird, kThird, 2, 0, 0, false, 12, 64, true},
    inverted(kThird, kFourth, 6, 5, 5, true),
    {Unit::attention, kPairsOfFourth, kFourth, kFourth, 2, 0, 0, false, 16, 96, false},
};

/// Returns a kernel of side² places over all features.
Operator wide_kernel(std::string name, std::int64_t side, std::int64_t in, std::int64_t out) {
  return linear(std::move(name), side * side * in, out, TpSplit::none, false);
}

/// Returns a pointwise product, with `more` places of its input a token.
Operator point(std::string name, std::int64_t in, std::int64_t out, std::int64_t more) {
  Operator op = linear(std::move(name), more * in, out, TpSplit::none, false);
  op.parameters = op.parameters_unsplit = in * out;
  return op;
}

/// Returns a norm with one weight a feature, on `more` places a token.
Operator places_norm(std::string name, std::int64_t width, std::int64_t more = 1) {
  Operator op = norm(std::move(name), more * width, 0);
  op.parameters = op.parameters_unsplit = width;
  return op;
}

/// Adds a depthwise kernel that writes `more` places a token.
void add_depthwise(Operators& list, const std::string& name, std::int64_t side, std::int64_t width, std::int64_t more) {
  list.push_back(causal_conv(name, more * width, side * side, false));
  list.back().parameters = side * side * width;
  list.push_back(places_norm(name + "_norm", width, more));
}

Operator layer_scale(const std::string& name, std::int64_t width) {
  Operator op = activation(name, width, width, TpSplit::none);
  op.parameters = op.parameters_unsplit = width;
  return op;
}

Operators fused_unit(const MobilenetStage& r) {
  const std::int64_t inner = r.expand * r.in;
  Operators list = {wide_kernel("conv.expand", 3, r.in, inner), places_norm("conv.expand_norm", inner),
                    activation("conv.activation", inner, inner, TpSplit::none), point("conv.project", inner, r.out, 1),
                    places_norm("conv.project_norm", r.out)};
  if (!r.shrinks) list.push_back(residual("conv.residual", r.out));
  return list;
}

Operators inverted_unit(const MobilenetStage& r) {
  const std::int64_t inner = r.expand * r.in, before = r.shrinks ? 4 : 1;
  Operators list;
  if (r.start > 0) add_depthwise(list, "conv.start", r.start, r.in, before);
  list.push_back(point("conv.expand", r.in, inner, before));
  list.push_back(places_norm("conv.expand_norm", inner, before));
  list.push_back(activation("conv.activation", before * inner, before * inner, TpSplit::none));
  if (r.middle > 0) {
    add_depthwise(list, "conv.middle", r.middle, inner, 1);
    list.push_back(activation("conv.middle_activation", inner, inner, TpSplit::none));
  }
  list.push_back(point("conv.project", inner, r.out, 1));
  list.push_back(places_norm("conv.project_norm", r.out));
  list.push_back(layer_scale("conv.scale", r.out));
  if (!r.shrinks) list.push_back(residual("conv.residual", r.out));
  return list;
}

/// Returns an attention unit: many queries, one key and one value, then an inverted unit without depthwise kernels.
Operators attention_unit(const MobilenetStage& r, std::int64_t tokens) {
  const std::int64_t fewer = r.few_keys ? 4 : 1;
  AttentionShape shape;
  shape.hidden = r.in;
  shape.heads = r.heads;
  shape.kv_heads = 1;
  shape.head_dim = r.width;
  shape.causal = false;
  shape.chunk = r.few_keys ? tokens / 4 : 0;  // as many keys
  Operators list = {places_norm("attn.norm", r.in), linear("attn.q", r.in, r.heads * r.width, TpSplit::none, false)};
  if (r.few_keys)
    for (const char* name : {"attn.key", "attn.value"}) {
      list.push_back(causal_conv(name, r.in / fewer, 9, false));
      list.back().parameters = 9 * r.in;
      list.push_back(norm(std::string(name) + "_norm", r.in / fewer, 0));
      list.back().parameters = list.back().parameters_unsplit = r.in;
    }
  list.push_back(linear("attn.kv", r.in / fewer, 2 * r.width, TpSplit::none, false));
  list.back().parameters = list.back().parameters_unsplit = 2 * r.in * r.width;
  list.push_back(attention_core("attn.core", shape));
  list.push_back(linear("attn.out", r.heads * r.width, r.in, TpSplit::none, false));
  list.push_back(layer_scale("attn.scale", r.in));
  list.push_back(residual("attn.residual", r.in));
  for (Operator& op : inverted_unit({Unit::inverted, 1, r.in, r.out, r.expand, 0, 0, false, 0, 0, false}))
    list.push_back(std::move(op));
  return list;
}

Operators unit(const MobilenetStage& r, std::int64_t tokens) {
  if (r.unit == Unit::fused) return fused_unit(r);
  return r.unit == Unit::inverted ? inverted_unit(r) : attention_unit(r, tokens);
}

Operators fusion() {
  constexpr std::int64_t kPlaces = 9, kIn = kThird + kFourth, kInner = 2 * kIn;
  return {point("fusion.expand", kIn, kInner, kPlaces),
          places_norm("fusion.expand_norm", kInner, kPlaces),
          activation("fusion.activation", kPlaces * kInner, kPlaces * kInner, TpSplit::none),
          point("fusion.project", kInner, kOut, kPlaces),
          places_norm("fusion.project_norm", kOut, kPlaces),
          pool("fusion.mean", kPlaces * kOut),
          norm("fusion.norm", kOut, 1)};
}

std::vector<LayerKind> layers_of_network() {
  std::vector<LayerKind> out;
  std::int64_t divisor = 1;
  int number = 0;
  for (const MobilenetStage& r : kStages) {
    if (r.shrinks) divisor *= 4;
    const std::int64_t along = r.out == kFourth ? 4 * kThird : 0;  // stage 3's features, for the fusion
    LayerKind kind = make_kind("tower.unit" + std::to_string(++number), LayerRole::block, r.out + along);
    kind.tokens_divisor = divisor;
    kind.operators = unit(r, kSide * kSide / divisor);
    if (number == 1) {
      Operators opening = {point("frames.patches", 3 * 9, kStem, 4), places_norm("frames.norm", kStem, 4),
                           activation("frames.activation", 4 * kStem, 4 * kStem, TpSplit::none)};
      opening.front().kind = OperatorKind::patch_embed;
      opening.front().parameters = opening.front().parameters_unsplit = 3 * 9 * kStem + kStem;
      kind.operators.insert(kind.operators.begin(), opening.begin(), opening.end());
    }
    out.insert(out.end(), static_cast<std::size_t>(r.count), kind);
  }
  LayerKind last = make_kind("tower.fusion", LayerRole::block, kOut);
  last.tokens_divisor = divisor / 4 * 9;
  last.operators = fusion();
  out.push_back(std::move(last));
  return out;
}

}  // namespace

TowerShape read_mobilenet(Fields& top, Fields& v, std::int64_t width) {
  const std::string network = v.text({"architecture"}, "mobilenetv5_300m_enc");
  if (v.ok() && network != "mobilenetv5_300m_enc")
    v.fail("architecture", network.substr(0, 60), "mobilenetv5_300m_enc",
           "the file names a timm network but does not state its sizes; without vision_config, the model is planned without its "
           "vision tower");
  const std::int64_t out = v.integer_or({"hidden_size"}, SizeLimits::width, kOut);
  if (v.ok() && out != kOut) v.fail("hidden_size", out, std::to_string(kOut) + ", what the network makes");
  const std::int64_t rows = v.integer_or({"vocab_size"}, SizeLimits::vocabulary, 128);
  const base::Node* own = v.reader().find("model_args");
  if (v.ok() && own != nullptr && in_use(*own)) v.fail("model_args", "sizes of one's own", "none");
  v.reader().ignore({"do_pooling", "vocab_offset", "num_classes", "label_names"});
  top.reader().ignore({"vision_soft_tokens_per_image"});
  TowerShape t;
  if (!v.ok()) return t;
  t.tokens = kSide * kSide;
  t.blocks = layers_of_network();
  t.merge = t.blocks.back().tokens_divisor;
  t.projectors = {{"projector", gemma3n_embedder(kOut, rows, width)}};
  return t;
}

}  // namespace espalier::model
