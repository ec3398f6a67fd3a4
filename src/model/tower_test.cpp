// SPDX-License-Identifier: Apache-2.0
// Counts towers by hand on small sizes: layers, parameters, tokens, FLOPs and boundary elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Has text of width 16 with two blocks, and a tower of width 8 with three blocks. All but the last have windows of
/// 2·2 patches; patches have 3·2·2·2 features.
std::string small_qwen(const std::string& more = "", int out = 16) {
  return R"({"model_type": "qwen2_5_vl", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 32, "tie_word_embeddings": false, "vision_config": {"depth": 3, "hidden_size": 8,
    "intermediate_size": 10, "num_heads": 2, "patch_size": 2, "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 4,
    "fullatt_block_indexes": [2], "out_hidden_size": )" +
         std::to_string(out) + "}" + more + "}";
}

constexpr Sequence kTwoImages{.main = 64, .encoder = 128, .decoder = 0, .images = 2};

TEST(Tower, StandsBetweenEmbeddingAndBlocks) {
  const Model m = load(small_qwen());
  EXPECT_THAT(order(m), ElementsAre("embedding", "tower.window.first", "tower.window", "tower.last", "projector", "decoder",
                                    "decoder", "head"));
  EXPECT_TRUE(m.tower);
  EXPECT_EQ(m.encoder_tokens, 0);  // images of any size
}

// A block has norms 2·8, qkv 8·24 + 24, out 8·8 + 8, gate and up 8·20 + 20, down 10·8 + 8. Patches have 24·8. The
// projector on four patches, 32 wide, has one norm's 8 weights, 32² + 32, 32·16 + 16.
TEST(Tower, ParametersByHand) {
  const Model m = load(small_qwen());
  const std::int64_t block = 16 + 216 + 72 + 180 + 88;
  EXPECT_EQ(parameter_count(kind(m, "tower.window")), block);
  EXPECT_EQ(parameter_count(kind(m, "tower.window.first")), block + 3 * 2 * 2 * 2 * 8);
  EXPECT_EQ(parameter_count(kind(m, "projector")), 8 + 32 * 32 + 32 + 32 * 16 + 16);
}

// Two images have 64 patches each: a tower layer has 128 tokens that see 64, the projector 32; the text has 64 of its
// own.
TEST(Tower, HasASequenceOfItsOwn) {
  const Model m = load(small_qwen());
  EXPECT_EQ(tokens_per_sample(kind(m, "tower.last"), kTwoImages), 128);
  EXPECT_EQ(attended_tokens(kind(m, "tower.last"), kTwoImages), 64);
  EXPECT_EQ(tokens_per_sample(kind(m, "projector"), kTwoImages), 32);
  EXPECT_EQ(tokens_per_sample(kind(m, "decoder"), kTwoImages), 64);
}

// The embedded text, 64 · 16, travels along past the tower; after the projector the merged patches also do.
TEST(Tower, CarriesTheTextAlong) {
  const Model m = load(small_qwen());
  EXPECT_EQ(boundary_elements(kind(m, "embedding"), kTwoImages), 64 * 16);
  EXPECT_EQ(boundary_elements(kind(m, "tower.last"), kTwoImages), 128 * 8 + 64 * 16);
  EXPECT_EQ(boundary_elements(kind(m, "projector"), kTwoImages), 32 * 16 + 64 * 16);
  EXPECT_EQ(boundary_elements(kind(m, "decoder"), kTwoImages), 64 * 16);
}

// Scores take 2·2 heads·(4 + 4) per token and key; windows have 4 patches, the last layer all 64 of an image.
// Products take 2·in·out.
TEST(Tower, FlopsByHand) {
  const Model m = load(small_qwen());
  const double products = 2.0 * (8 * 24 + 8 * 8 + 8 * 20 + 10 * 8);
  EXPECT_DOUBLE_EQ(forward_flops(kind(m, "tower.window"), kTwoImages, true).count(), 128 * (products + 32 * 4));
  EXPECT_DOUBLE_EQ(forward_flops(kind(m, "tower.last"), kTwoImages, true).count(), 128 * (products + 32 * 64));
  EXPECT_DOUBLE_EQ(forward_flops(kind(m, "projector"), kTwoImages, true).count(), 32 * 2.0 * (32 * 32 + 32 * 16));
}

TEST(Tower, IsAsWideAsTheTextInTheEnd) {
  EXPECT_THAT(error_of(small_qwen("", 12)), HasSubstr("out_hidden_size = 12; expected the width of the text, 16"));
}

TEST(Tower, UnknownSizesRefuseByName) {
  EXPECT_THAT(error_of(small_qwen(R"(, "audio_config": {"layers": 2})")), HasSubstr("audio_config"));
}

/// An image of 8·8 pixels has 16 patches; CLIP's class token has 8 parameters and a row of positions.
std::string small_llava(const std::string& text) {
  return R"({"model_type": "llava", "text_config": )" + text + R"(, "vision_config": {"model_type": "clip_vision_model",
    "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 8, "patch_size": 2}})";
}

TEST(Tower, FixedImagesSetTheirPatches) {
  const Model m = load(small_llava(R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "vocab_size": 32})"));
  EXPECT_EQ(m.encoder_tokens, 16);
  EXPECT_EQ(op(kind(m, "tower.first"), "tower.patches").parameters, 3 * 2 * 2 * 8 + 8);
  EXPECT_EQ(op(kind(m, "tower.first"), "embed.position").parameters, 17 * 8);
  EXPECT_EQ(parameter_count(kind(m, "projector")), 8 * 16 + 16 + 16 * 16 + 16);
}

// llava's own files name llama and leave out what its class assumes.
TEST(Tower, SizesThatTheClassAssumesAreNoted) {
  const Model m = load(R"({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}, "vision_config":
    {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
    "num_attention_heads": 16, "image_size": 336, "patch_size": 14}})");
  EXPECT_TRUE(noted(m, ModelNote::Kind::defaulted, "hidden_size"));
  EXPECT_EQ(m.blocks(), 32 + 24 + 1);
}

// Sizes at their limits end in a message, never in an overflow.
TEST(Tower, HostileSizesRefuse) {
  const auto hostile = [](const std::string& vision) {
    return R"({"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 16777216, "intermediate_size": 16777216,
      "num_hidden_layers": 4096, "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 16777216}, "vision_config": )" +
           vision + "}";
  };
  EXPECT_THAT(error_of(hostile(R"({"hidden_size": 16777216, "intermediate_size": 16777216, "num_hidden_layers": 4096,
    "num_attention_heads": 1, "image_size": 4096, "patch_size": 1})")),
              HasSubstr("at most 2^50 parameters"));
  EXPECT_THAT(error_of(hostile(R"({"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    "image_size": 65536, "patch_size": 1})")),
              HasSubstr("at most 2^31 patches"));
  EXPECT_THAT(error_of(hostile(R"({"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    "image_size": 4, "patch_size": 8})")),
              HasSubstr("at least patch_size = 8"));
  EXPECT_THAT(
      error_of(hostile(R"({"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 65536})")),
      HasSubstr("num_attention_heads"));
  EXPECT_THAT(error_of(hostile("[1, 2]")), HasSubstr("vision_config"));
}

TEST(Tower, TextOfAnotherFamilyRefuses) {
  EXPECT_THAT(error_of(small_llava(R"({"model_type": "bloom", "hidden_size": 16})")), HasSubstr("a known decoder family"));
}

}  // namespace
}  // namespace espalier::model::testing
