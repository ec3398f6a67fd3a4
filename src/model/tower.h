// SPDX-License-Identifier: Apache-2.0
// Towers of models that see or hear: layers with a sequence of their own, the patches of a sample's images or the
// frames of its recordings, between the embedding of the text and its first block.
//
//   block       of a ViT: attention 4·w² + MLP 2·w·f (gated 3·w·f) + norms (+ biases, layer scales);  w width, f
//               feed-forward width
//   projector   merges m neighbouring patches and makes them as wide as the text
//   order       embedding (text), tower's blocks (stream encoder; the embedded text travels along), projector (patches
//               / m), blocks, head
//
// A model that sees and hears has two: behind the projector of its images the blocks and the projector of its
// recordings, named tower.sound and projector.sound, whose sequence is the third one, TokenStream::decoder.
//
// Attention stays inside each image. A class token is counted in parameters and not in work. Facts: modelling classes
// of Hugging Face transformers 5.23 (src/transformers/models/<type>).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/family.h"

namespace espalier::model {

struct TowerShape {
  std::int64_t layers = 0, hidden = 0, ffn = 0;
  std::int64_t patch_features = 0;  ///< of one patch: channels · side² (· frames)
  std::int64_t positions = 0;       ///< rows of a learned table; 0 = none
  std::int64_t class_token = 0;     ///< its parameters
  std::int64_t tokens = 0;          ///< patches of one image; 0 = images of any size, the job says how many patches
  std::int64_t merge = 1;           ///< patches that the projector makes one of
  AttentionShape attention;
  int norm_weights = 2, first_norm = 0, last_norm = 0;  ///< weights a feature, as in norm(); the last two 0 = no such
                                                        ///< norm
  bool patch_bias = false, gated = false, mlp_bias = true, scaled = false;
  bool sandwich = false;             ///< norms before and after the halves of a block
  bool key_bias = true;              ///< where attention.qkv_bias
  std::int64_t bins = 0;             ///< mel bins of a frame of sound, which two convolutions make tokens of; 0 =
                                     ///< patches of
                                     ///< images
  std::int64_t unused = 0;           ///< parameters of a pooling head that is held and not run
  std::vector<std::int64_t> pieces;  ///< per layer: attention inside pieces of so many patches, 0 = the whole image;
                                     ///< empty
                                     ///< = all 0
  std::vector<LayerKind> blocks;     ///< in place of the `layers` blocks of a ViT: each with its operators, width and
                                     ///< tokens_divisor
  std::vector<std::pair<std::string, Operators>> projectors;  ///< by name: what maps merged patches to the text's width
};

/// The text model with the tower between its embedding and its first block; `beside`: another tower comes before it,
/// whose images have the encoder's sequence.
Model with_tower(Model text, const TowerShape& tower, bool beside = false);

/// Towers of CLIP and SigLIP; `head`: whether the class makes a pooling head unless it is told not to, which then is
/// held and not run.
TowerShape read_clip_tower(Fields& vision);
TowerShape read_siglip_tower(Fields& vision, bool head, std::int64_t patch = 16, std::int64_t image = 224);
/// Up, non-linearity, down.
Operators two_linears(std::int64_t in, std::int64_t inner, std::int64_t out, bool bias);

// Towers that hear (sound_towers.cpp), and the network of convolutions that Gemma 3n sees through (mobilenet.cpp).
TowerShape read_qwen2_audio(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_voxtral(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_omni_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_gemma3n_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_gemma4_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_phi4_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_phi4_images(Fields& top, Fields& vision, std::int64_t text_width);
TowerShape read_mobilenet(Fields& top, Fields& vision, std::int64_t text_width);
/// Gemma 3n's way from a tower's features to the text: a norm, a matrix; beside it a table of tokens and its norm,
/// which are held.
Operators gemma3n_embedder(std::int64_t width, std::int64_t rows, std::int64_t text_width);

/// One row of tower_families.cpp.
struct TowerFamily {
  std::string_view type, architecture;
  std::string_view text;  ///< family of the text model where text_config has no model_type
  TowerShape (*read)(Fields& top, Fields& vision, std::int64_t text_width);
  bool generous = false;                      ///< text_config leaves out what its class assumes (llava: the sizes of
                                              ///< llama)
  std::string_view config = "vision_config";  ///< key of the tower's own configuration
  ReadFamily read_text = nullptr;             ///< reader of `text`, where that is no row of switches
  /// tower of audio_config beside that one
  TowerShape (*hear)(Fields& top, Fields& audio, std::int64_t text_width) = nullptr;
};
const std::vector<TowerFamily>& tower_families();
/// Fills `model` from text_config (or the file itself, where the text's keys stand beside vision_config) and the
/// tower's own configuration.
void read_tower_family(Fields& fields, Model& model, const TowerFamily& family);

}  // namespace espalier::model
