// SPDX-License-Identifier: Apache-2.0
// Reads Phi-4-multimodal in the form of the hub's own class (Microsoft 2025, arXiv 2503.01743). It has Phi-3's text,
// the towers of SigLIP and of a conformer (sound_towers.cpp), and low-rank adapters for each modality on the
// projections of every block:
//
//   adapters of a block   r·(in + out) of queries, keys and values, output, gate and up, down;  r = vision_lora.r,
//                         speech_lora.r.
//
// They are ordinary parameters of the model. A sample with images runs those of vision, even if it also has
// recordings; those of speech are held. The image tower is defined by the class and not by the file: SigLIP so400m
// with patches of 14, images of 448. The file of transformers (phi4_multimodal) has the towers and no adapters.
#include <string>
#include <string_view>
#include <utility>

#include "model/decoder_traits.h"
#include "model/tower.h"

namespace espalier::model {
namespace {

/// Reads the rank of an adapter, and checks that the adapter is where it is expected.
std::int64_t read_rank(Fields& top, std::string_view key, Model& model) {
  base::Reader reader = top.reader().child(key, true);
  if (!top.ok()) return 1;
  Fields lora(reader, model.notes);
  const std::int64_t rank = lora.integer({"r"}, SizeLimits::width);
  const std::string layer = lora.text({"layer"}, "");
  for (const char* word : {"qkv", "gate_up", "down", "mlp", "self_attn"})
    if (lora.ok() && layer.find(word) == std::string::npos)
      lora.fail("layer", layer.substr(0, 60), "qkv_proj, o_proj, gate_up_proj and down_proj of all layers");
  reader.ignore({"dp", "lora_alpha"});
  judge_unread(lora, model.family);
  return rank;
}

bool adapted(const Operator& op) {
  return op.name == "attn.qkv" || op.name == "attn.out" || op.name == "mlp.gate_up" || op.name == "mlp.down";
}

Operators with_adapters(const Operators& block, std::int64_t vision, std::int64_t speech) {
  Operators list;
  std::int64_t held = 0;
  for (const Operator& op : block) {
    list.push_back(op);
    if (!adapted(op)) continue;
    list.push_back(linear(op.name + "_vision_down", op.in, vision, TpSplit::none, false));
    list.back().parallel = true;  // reads the projection's input
    list.push_back(linear(op.name + "_vision_up", vision, op.out, TpSplit::none, false));
    list.push_back(residual(op.name + "_vision_add", op.out));
    held += times(speech, op.in + op.out);
  }
  list.push_back(pool("speech.held_adapters", 1));
  list.back().parameters = list.back().parameters_unsplit = held;
  return list;
}

/// Returns a mapping inside another; an empty one if there is none.
base::Reader inner_mapping(Fields& top) {
  base::Reader outer = top.reader().child("audio_processor", true);
  outer.ignore({"name"});
  return outer.child("config", true);
}

}  // namespace

void read_phi4mm(Fields& top, Model& model) {
  const std::int64_t vision = read_rank(top, "vision_lora", model), speech = read_rank(top, "speech_lora", model);
  base::Reader audio_reader = inner_mapping(top);
  if (!top.ok()) return;
  if (top.reader().has("img_processor"))
    top.fail("img_processor", "another tower", "the tower of the class, SigLIP so400m with patches of 14 and images of 448");
  top.reader().ignore({"full_attn_mod", "interpolate_factor", "audio_token_id", "image_token_id"});
  Traits text = *decoder_traits("phi3");
  text.tied = true;
  read_decoder(top, model, text);
  if (!top.ok()) return;
  for (LayerKind& kind : model.kinds)
    if (kind.role == LayerRole::block) kind.operators = with_adapters(kind.operators, vision, speech);
  const std::int64_t width = model.layer(0).hidden;
  Fields audio(audio_reader, model.notes);
  static const base::Node kNothing = [] {
    base::Node node;
    node.kind = base::NodeKind::mapping;
    return node;
  }();
  base::Reader none(top.reader().document(), kNothing, "$", top.reader().sink());
  std::vector<ModelNote> defaults;  // defaults of the class, stated by the note below
  Fields images(none, defaults);
  const TowerShape sound = read_phi4_sound(top, audio, width), sight = read_phi4_images(top, images, width);
  if (!top.ok()) return;
  model = with_tower(with_tower(std::move(model), sound, true), sight);
  model.notes.push_back({ModelNote::Kind::derived, "embd_layer",
                         "the image tower is that of the class: 27 layers of width 1152, patches of 14, images of 448"});
  judge_unread(audio, model.family);
}

}  // namespace espalier::model
