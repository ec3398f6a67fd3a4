// SPDX-License-Identifier: Apache-2.0
// Counts by hand, on small sizes, models that see and hear, conformers, MobileNet-V5 and the adapters of Phi-4. Also
// tests hostile sizes of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::testing::sound_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kText = R"("hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 32)";

/// Has text of width 16, an image tower, and a sound tower of width 8 with two blocks and pieces of five tokens.
std::string omni(const std::string& audio = R"("d_model": 8)", const std::string& more = "") {
  return R"({"model_type": "qwen2_5_omni_thinker", "tie_word_embeddings": false, "text_config": {"model_type": "qwen2_5_omni_text", )" +
         kText + R"(}, "vision_config": {"depth": 1, "hidden_size": 8, "intermediate_size": 10, "num_heads": 2, "patch_size": 2,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 4, "fullatt_block_indexes": [0], "out_hidden_size": 16},
    "audio_config": {"encoder_layers": 2, "encoder_ffn_dim": 12, "encoder_attention_heads": 2, "num_mel_bins": 4, "n_window": 5,
    "output_dim": 16, )" +
         audio + "}" + more + "}";
}

constexpr Sequence kBoth{.main = 64, .encoder = 64, .decoder = 20, .images = 1};

TEST(TwoTowers, StandBehindEachOther) {
  const Model m = load(omni());
  EXPECT_THAT(order(m), ElementsAre("embedding", "tower.first.last", "projector", "tower.sound.first", "tower.sound.last",
                                    "projector.sound", "decoder", "decoder", "head"));
  EXPECT_TRUE(m.tower);
  EXPECT_EQ(op(kind(m, "tower.sound.last"), "attn.core").chunk, 5);
}

// A block has norms 2·16, qkv 8·24 + 24 without the keys' 8, out 8·8 + 8, up 8·12 + 12, down 12·8 + 8. Convolutions
// have 3·4·8 + 8 and 3·8·8 + 8. The projector has norm 16, 8·16 + 16, two rows of 16.
TEST(TwoTowers, ParametersByHand) {
  const Model m = load(omni());
  const std::int64_t block = 32 + 208 + 72 + 108 + 104;
  EXPECT_EQ(parameter_count(kind(m, "tower.sound.last")), block);
  EXPECT_EQ(parameter_count(kind(m, "tower.sound.first")), block + 104 + 200);
  EXPECT_EQ(parameter_count(kind(m, "projector.sound")), 16 + 144 + 32);
}

// Twenty tokens of sound become ten; the embedded text, 64 · 16, travels along past them.
TEST(TwoTowers, HaveSequencesOfTheirOwn) {
  const Model m = load(omni());
  EXPECT_EQ(tokens_per_sample(kind(m, "tower.first.last"), kBoth), 64);
  EXPECT_EQ(tokens_per_sample(kind(m, "tower.sound.first"), kBoth), 20);
  EXPECT_EQ(tokens_per_sample(kind(m, "projector.sound"), kBoth), 10);
  EXPECT_EQ(boundary_elements(kind(m, "tower.sound.last"), kBoth), 20 * 8 + 64 * 16);
}

TEST(TwoTowers, AreOneWhereTheFileHasOne) {
  const Model m =
      load(R"({"model_type": "qwen2_5_omni_thinker", "text_config": {)" + kText +
           R"(}, "audio_config": {"d_model": 8, "encoder_layers": 1, "encoder_ffn_dim": 12, "encoder_attention_heads": 2,
    "output_dim": 16}})");
  EXPECT_THAT(order(m), ElementsAre("embedding", "tower.first.last", "projector", "decoder", "decoder", "head"));
  EXPECT_EQ(kind(m, "projector").stream, TokenStream::encoder);
}

TEST(Omni, TheTalkerIsSaidAndNotPlanned) {
  const Model m = load(R"({"model_type": "qwen2_5_omni", "thinker_config": )" + omni() +
                       R"(, "talker_config": {"embedding_size": 12, )" + kText + R"(, "head_dim": 8}, "token2wav_config": {}})");
  EXPECT_EQ(parameter_count(m), parameter_count(load(omni())));
  // The talker has table 32·12, blocks 16·32 + 32 + 256 + 3·16·24 + 32 each, norm 16, head 32·16, from the thinker
  // 12·16 + 16.
  const std::int64_t talker = 384 + 2 * (512 + 32 + 256 + 1152 + 32) + 16 + 512 + 208;
  ASSERT_TRUE(noted(m, ModelNote::Kind::left_out, "talker_config"));
  EXPECT_THAT(unplanned_parts(m).back(), HasSubstr(std::to_string(talker) + " parameters"));
}

/// Has text of width 16 and a conformer of one block, 8 wide.
std::string gemma4(const std::string& audio) {
  return R"({"model_type": "gemma4", "text_config": {"hidden_size_per_layer_input": 0, "head_dim": 8, "global_head_dim": 8, )" +
         kText +
         R"(}, "audio_config": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "conv_kernel_size": 3,
    "output_proj_dims": 6, )" +
         audio + "}}";
}

// The block has two MLPs 8·8² + 2·8, attention 5·8² + 4 features a head + 2·8, convolution 3·8² + 3·8 + 2·8, and the
// final norm. Before it are kernels 9·128 + 128 and 9·128·4 + 4 and a matrix 128·8, after it 8·6 + 6. Attention
// reaches 12 + 13 − 1 tokens.
TEST(Conformer, OfGemmaByHand) {
  const Model m = load(gemma4(R"("subsampling_conv_channels": [128, 4])"));
  const LayerKind& block = kind(m, "tower.first.last");
  const std::int64_t layer = 2 * (512 + 16) + 320 + 4 + 16 + 192 + 24 + 16 + 8;
  EXPECT_EQ(parameter_count(block), layer + 1280 + 4612 + 1024 + 54);
  EXPECT_EQ(parameter_count(kind(m, "projector")), 6 * 16);
  EXPECT_EQ(op(block, "attn.core").window, 24);
  EXPECT_EQ(op(block, "conv.conv").kind, OperatorKind::causal_conv);
  // Kernels take 2·(9·128·128 + 9·128·32·4), of 100 tokens each; scores 2·2 heads·(4 + 4)·24 keys.
  const double kernels = 2.0 * (9 * 128 * 128 + 9 * 128 * 32 * 4 + 128 * 8);
  const double products = 2.0 * (2 * 512 + 4 * 64 + 3 * 64 + 48) + 2.0 * 8 * 3;
  EXPECT_DOUBLE_EQ(forward_flops(block, {.main = 64, .encoder = 100}, true).count(), 100 * (kernels + products + 32 * 24));
}

// Attention of stage 3 has 48·48 queries of 12 heads on 24·24 keys of one head. (class_defaults_test.cpp tests all of
// the network's parameters.)
TEST(MobileNet, IsATowerWhoseTokensBecomeFewer) {
  const std::string text =
      R"({"model_type": "gemma3n", "text_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 5,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 32, "hidden_size_per_layer_input": 2,
    "vocab_size_per_layer_input": 32, "num_kv_shared_layers": 0}, "vision_config": {)";
  const Model m = load(text + "}}");
  EXPECT_EQ(m.encoder_tokens, 384 * 384);
  const Sequence image{.main = 512, .encoder = 384 * 384};
  EXPECT_EQ(tokens_per_sample(kind(m, "tower.unit11"), image), 48 * 48);
  EXPECT_EQ(tokens_per_sample(kind(m, "tower.unit13"), image), 24 * 24);
  EXPECT_EQ(tokens_per_sample(kind(m, "projector"), image), 256);
  EXPECT_EQ(boundary_elements(kind(m, "projector"), image), 256 * 16 + 512 * (4 * 16 + 5 * 2));
  const LayerKind& third = kind(m, "tower.unit11");
  EXPECT_EQ(parameter_count(third), 640 + 640 * 768 + 2 * (9 * 640 + 640 + 640 * 64) + 768 * 640 + 640 +  // attention
                                        640 * 1280 + 1280 + 1280 * 640 + 640 + 640);                      // after it
  const double products = 2.0 * (640 * 768 + 160 * 128 + 768 * 640 + 2 * 640 * 1280 + 2 * 160 * 9);
  EXPECT_DOUBLE_EQ(forward_flops(third, image, true).count(), 2304.0 * (products + 2.0 * 12 * 128 * 576));
  EXPECT_THAT(error_of(text + R"("architecture": "resnet50"}})"), HasSubstr("mobilenetv5_300m_enc"));
  EXPECT_THAT(error_of(text + R"("model_args": {"depth": 3}}})"), HasSubstr("model_args"));
}

std::string phi4mm(const std::string& speech = R"("r": 3)", const std::string& audio = "") {
  const std::string layer =
      R"x("layer": "layers.*((self_attn\\.(qkv_proj|o_proj))|(mlp\\.(gate_up|down)_proj))", "lora_alpha": 4, "dp": 0.0, )x";
  return R"({"model_type": "phi4mm", "vision_lora": {)" + layer + R"("r": 2}, "speech_lora": {)" + layer + speech + R"(}, )" +
         kText +
         R"(, "audio_processor": {"name": "cascades", "config": {"attention_dim": 8, "attention_heads": 2, "linear_units": 12, "num_blocks": 1,
    "nemo_conv_settings": {"conv_channels": 8}, "relative_attention_bias_args": {"t5_bias_max_distance": 5, "type": "t5"})" +
         audio + "}}}";
}

// Projections are 16 → 32, 16 → 16, 16 → 48, 24 → 16: each modality has r·(48 + 32 + 64 + 40) a block. Only those of
// vision run; those of speech are held.
TEST(Phi4, AdaptersOfEachModalityAreParameters) {
  const Model m = load(phi4mm());
  const LayerKind& block = kind(m, "decoder");
  const std::int64_t base = 16 * 32 + 256 + 3 * 16 * 24 + 32, widths = 48 + 32 + 64 + 40;
  EXPECT_EQ(parameter_count(block), base + (2 + 3) * widths);
  EXPECT_EQ(op(block, "speech.held_adapters").parameters, 3 * widths);
  EXPECT_EQ(op(block, "mlp.down_vision_up").parameters, 2 * 16);
  EXPECT_TRUE(m.tied_embeddings);
  // Tables of distances have 2·5·2 heads.
  EXPECT_EQ(op(kind(m, "tower.sound.first.last"), "tower.distances").parameters, 20);
}

TEST(Phi4, HostileSizesRefuse) {
  EXPECT_THAT(error_of(phi4mm(R"("r": 0)")), HasSubstr("speech_lora"));
  EXPECT_THAT(error_of(phi4mm(R"("r": 3, "modules": 2, "mlp_layers": 3)")), HasSubstr("mlp_layers"));
  EXPECT_THAT(error_of(phi4mm(R"("r": 3)", R"(, "time_reduction": 6)")), HasSubstr("a power of two"));
  EXPECT_THAT(error_of(phi4mm(R"("r": 3)", R"(, "chunk_size": 18)")), HasSubstr("chunk_size"));
  EXPECT_THAT(error_of(phi4mm(R"("r": 3)", R"(, "ext_pw_out_channel": 9)")), HasSubstr("hidden_size, 8"));
  EXPECT_THAT(error_of(R"({"model_type": "phi4mm", )" + kText + "}"), HasSubstr("vision_lora"));
}

TEST(Conformer, HostileSizesRefuse) {
  EXPECT_THAT(error_of(gemma4(R"("subsampling_conv_channels": [64, 4])")), HasSubstr("128, the number of mel bins"));
  EXPECT_THAT(error_of(gemma4(R"("subsampling_conv_channels": [1, 2, 3])")), HasSubstr("3 entries"));
  EXPECT_THAT(error_of(gemma4(R"("num_experts": 3)")), HasSubstr("num_experts"));
  EXPECT_THAT(error_of(omni(R"("d_model": 16777216, "d_extra_layers": 3)")), HasSubstr("d_extra_layers"));
  EXPECT_THAT(error_of(omni(R"("d_model": 7)")), HasSubstr("encoder_attention_heads"));
  const std::string talker =
      R"("talker_config": {"hidden_size": 16777216, "intermediate_size": 16777216, "num_hidden_layers": 4096,
    "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 16777216}})";
  EXPECT_THAT(error_of(R"({"model_type": "qwen2_5_omni", "thinker_config": )" + omni() + ", " + talker), HasSubstr("2^50"));
}

// ---- weights that several layers use ------------------------------------------------------------------------------

std::string albert(const std::string& more) {
  return R"({"model_type": "albert", "hidden_size": 16, "embedding_size": 4, "num_hidden_layers": 4, "num_attention_heads": 2,
    "intermediate_size": 24, "vocab_size": 32, "max_position_embeddings": 8, )" +
         more + "}";
}

// The embedding has 4·(32 + 8 + 2) + 8 + 4·16 + 16; a block 4·16² + 4·16 + 2·16·24 + 24 + 16 + 4·16, once for each of
// two groups; the head 16·4 + 4 + 8 + 32.
TEST(Albert, CountsTheBlockOfAGroupOnce) {
  const Model m = load(albert(R"("num_hidden_groups": 2)"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "encoder", "encoder.again", "encoder", "encoder.again", "head"));
  EXPECT_EQ(parameter_count(m), 256 + 2 * 1960 + 108);
  const Sequence s{.main = 8};
  EXPECT_EQ(parameter_count(kind(m, "encoder.again")), 0);
  EXPECT_DOUBLE_EQ(forward_flops(kind(m, "encoder.again"), s, true).count(), forward_flops(kind(m, "encoder"), s, true).count());
  EXPECT_EQ(op(kind(m, "encoder.again"), "again.attn.qkv").out, 48);
}

TEST(Albert, HostileSizesRefuse) {
  EXPECT_THAT(error_of(albert(R"("num_hidden_groups": 5)")), HasSubstr("num_hidden_groups = 5"));
  std::string many = albert(R"("inner_group_num": 64)");
  many.replace(many.find("layers\": 4"), 10, "layers\": 4096");
  EXPECT_THAT(error_of(many), HasSubstr("4096 blocks in all"));
}

std::string zamba2(const std::string& types, const std::string& more = "") {
  return R"({"model_type": "zamba2", "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16,
    "adapter_rank": 2, "n_mamba_heads": 4, "mamba_d_state": 4, "vocab_size": 32, "layers_block_type": )" +
         types + more + "}";
}

// The shared block has 3·16·16 + 16·8, norms 16 + 8, MLP 3·8·16. A place has 8·8, adapters 2·(8 + 32), and Mamba-2:
// norm 8, in 8·(16 + 24 + 4), conv 24·5, 3·4, norm 16, out 16·8. The embedded tokens, 8 features, travel along to the
// last place.
TEST(Zamba2, CountsTheSharedBlockOnce) {
  const Model m = load(zamba2(R"(["hybrid", "mamba", "hybrid"])"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "hybrid", "mamba2", "hybrid.again.last", "head"));
  const std::int64_t shared = 768 + 128 + 24 + 384, mamba = 8 + 352 + 120 + 12 + 16 + 128, place = 64 + 80 + mamba;
  EXPECT_EQ(parameter_count(kind(m, "hybrid")), shared + place);
  EXPECT_EQ(parameter_count(kind(m, "mamba2")), mamba);
  EXPECT_EQ(parameter_count(kind(m, "hybrid.again.last")), place);
  EXPECT_EQ(boundary_elements(kind(m, "mamba2"), {.main = 1}), 8 + 8);
  EXPECT_EQ(boundary_elements(kind(m, "hybrid.again.last"), {.main = 1}), 8);
  const Model two =
      load(zamba2(R"(["hybrid", "mamba", "hybrid"])", R"(, "num_mem_blocks": 2, "use_shared_attention_adapter": true)"));
  EXPECT_EQ(parameter_count(two.layer(3)), shared + place + 3 * 2 * 32);
}

TEST(Zamba2, HostileSizesRefuse) {
  EXPECT_THAT(error_of(zamba2(R"(["hybrid", "mamba"])")), HasSubstr("a list of 3 entries"));
  EXPECT_THAT(error_of(zamba2("null")), HasSubstr("hybrid_layer_ids"));
  EXPECT_THAT(error_of(zamba2("null", R"(, "hybrid_layer_ids": [3])")), HasSubstr("hybrid_layer_ids"));
  EXPECT_THAT(error_of(zamba2(R"(["mamba", "mamba", "hybrid"])", R"(, "mamba_ngroups": 3)")), HasSubstr("mamba_ngroups"));
  EXPECT_THAT(error_of(zamba2(R"(["mamba", "mamba", "hybrid"])", R"(, "use_shared_mlp_adapter": false)")),
              HasSubstr("use_shared_mlp_adapter"));
}

}  // namespace
}  // namespace espalier::model::testing::sound_test
