// SPDX-License-Identifier: Apache-2.0
// Defines towers of models that see or hear. These are layers with their own sequence, the patches of a sample's
// images or the frames of its recordings, between the embedding of the text and its first block.
//
//   block       of a ViT: attention 4·w² + MLP 2·w·f (gated 3·w·f) + norms (+ biases, layer scales);  w width, f
//               feed-forward width
//   projector   merges m neighbouring patches and makes them as wide as the text
//   order       embedding (text), tower's blocks (stream encoder; the embedded text travels along), projector
//               (patches / m), blocks, head.
//
// A model that sees and hears has two. The blocks and the projector of its recordings follow the projector of its
// images. They are named tower.sound and projector.sound, and their sequence is the third one, TokenStream::decoder.
//
// Attention stays inside each image. A class token counts in parameters but not in work. Facts: modelling classes of
// Hugging Face transformers 5.23 (src/transformers/models/<type>).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/family.h"

namespace espalier::model {

struct TowerShape {
  std::int64_t layers = 0, hidden = 0, ffn = 0;
  std::int64_t patch_features = 0;  ///< features of one patch: channels · side² (· frames)
  std::int64_t positions = 0;       ///< rows of a learned table; 0 = none
  std::int64_t class_token = 0;     ///< its parameters
  std::int64_t tokens = 0;          ///< patches of one image; 0 = images of any size, the job states how many patches
  std::int64_t merge = 1;           ///< patches that the projector merges into one
  AttentionShape attention;
  /// Count weights a feature, as in norm(); the last two are 0 if there is no such norm.
  int norm_weights = 2, first_norm = 0, last_norm = 0;
  bool patch_bias = false, gated = false, mlp_bias = true, scaled = false;
  bool sandwich = false;  ///< norms before and after the halves of a block
  bool key_bias = true;   ///< if attention.qkv_bias
  /// Counts the mel bins of a frame of sound, of which two convolutions make tokens; 0 = patches of images.
  std::int64_t bins = 0;
  std::int64_t unused = 0;  ///< parameters of a pooling head that is held and not run
  /// Limits attention in each layer to pieces of this many patches; 0 = the whole image, empty = all 0.
  std::vector<std::int64_t> pieces;
  /// Replace the `layers` blocks of a ViT, each with its operators, width and tokens_divisor.
  std::vector<LayerKind> blocks;
  std::vector<std::pair<std::string, Operators>> projectors;  ///< by name: maps merged patches to the text's width
};

/// Returns the text model with the tower between its embedding and its first block. If `beside` is set, an image
/// tower with the encoder's sequence comes before it.
Model with_tower(Model text, const TowerShape& tower, bool beside = false);

/// Read the towers of CLIP and SigLIP. `head`: the class makes a pooling head unless it is switched off; the head is
/// held and not run.
TowerShape read_clip_tower(Fields& vision);
TowerShape read_siglip_tower(Fields& vision, bool head, std::int64_t patch = 16, std::int64_t image = 224);
/// Returns two linears with a non-linearity between them.
Operators two_linears(std::int64_t in, std::int64_t inner, std::int64_t out, bool bias);

// The following read sound towers (sound_towers.cpp), and the convolutional image tower of Gemma 3n (mobilenet.cpp).
TowerShape read_qwen2_audio(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_voxtral(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_omni_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_gemma3n_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_gemma4_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_phi4_sound(Fields& top, Fields& audio, std::int64_t text_width);
TowerShape read_phi4_images(Fields& top, Fields& vision, std::int64_t text_width);
TowerShape read_mobilenet(Fields& top, Fields& vision, std::int64_t text_width);
/// Returns Gemma 3n's projection of a tower's features to the text: a norm and a matrix. A table of tokens and its
/// norm are also held.
Operators gemma3n_embedder(std::int64_t width, std::int64_t rows, std::int64_t text_width);

/// Describes one row of tower_families.cpp.
struct TowerFamily {
  std::string_view type, architecture;
  std::string_view text;  ///< family of the text model if text_config has no model_type
  TowerShape (*read)(Fields& top, Fields& vision, std::int64_t text_width);
  /// Allows text_config to leave out what its class assumes (llava: the sizes of llama).
  bool generous = false;
  std::string_view config = "vision_config";  ///< key of the tower's own configuration
  ReadFamily read_text = nullptr;             ///< reader of `text`, if it is not a row of switches
  /// Reads the tower of audio_config, in addition to that of `config`.
  TowerShape (*hear)(Fields& top, Fields& audio, std::int64_t text_width) = nullptr;
};
const std::vector<TowerFamily>& tower_families();
/// Fills `model` from text_config and the tower's own configuration. If the text's keys are next to vision_config,
/// the file itself replaces text_config.
void read_tower_family(Fields& fields, Model& model, const TowerFamily& family);

}  // namespace espalier::model
