// SPDX-License-Identifier: Apache-2.0
// Counts by hand, on small sizes, forms that no other family shares. These are pairs of towers, heads of two widths,
// keys that are values, terms of relative positions and adaptive norms. Others are an encoder and a decoder of
// Gemma's blocks, and recordings in a text. class_defaults_test.cpp has exact counts of whole classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::testing::newer_forms_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string pair(const std::string& type) {
  return R"({"model_type": ")" + type + R"(", "projection_dim": 6, "text_config": {"hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 32, "max_position_embeddings": 16},
    "vision_config": {"hidden_size": 8, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 2,
    "image_size": 4}})";
}

// CLIP has the class token's 8 features, norm 16, 8 · 6. The text's last block ends in a norm; its head is 8 · 6 and
// a scale.
TEST(ImageTextPair, Clip) {
  const Model m = load(pair("clip"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "tower.first.last", "projector", "text", "text.last", "head"));
  EXPECT_EQ(parameter_count(kind(m, "projector")), 16 + 48);
  EXPECT_EQ(parameter_count(kind(m, "head")), 48 + 1);
  EXPECT_EQ(parameter_count(kind(m, "text.last")), parameter_count(kind(m, "text")) + 16);
  EXPECT_TRUE(op(kind(m, "text"), "attn.core").causal);
  const Sequence s{.main = 16, .encoder = 4};
  EXPECT_EQ(tokens_per_sample(kind(m, "projector"), s), 1);
  EXPECT_EQ(tokens_per_sample(kind(m, "head"), s), 1);
}

// SigLIP's pooling head has query 8 + 72, keys and values 2 · 72, output 72, norm 16, MLP 8·20 + 20 + 20·8 + 8. Keys
// and values are made of all 4 patches: 2 · (4·8) · 16 FLOPs, as those of four tokens.
TEST(ImageTextPair, SiglipPoolsByAttention) {
  const Model m = load(pair("siglip"));
  const LayerKind& projector = kind(m, "projector");
  EXPECT_EQ(parameter_count(projector), 80 + 144 + 72 + 16 + 348);
  EXPECT_EQ(op(projector, "projector.kv").in * op(projector, "projector.kv").out, 4 * 8 * 16);
  EXPECT_FALSE(op(kind(m, "text"), "attn.core").causal);
  EXPECT_EQ(parameter_count(kind(m, "head")), 8 * 8 + 8 + 2);
}

std::string gemma4(const std::string& more) {
  return R"({"model_type": "gemma4_text", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_global_key_value_heads": 1, "head_dim": 4, "global_head_dim": 8, "vocab_size": 32, )" +
         more + "}";
}

// Sliding layers have 16·(16 + 2·8) and 16·16 back, norms 4 + 4. Full layers have 16·(32 + 8), keys that are values,
// 32·16 back, norms 8 + 8. Both have an MLP of 3·16·24 and four norms.
TEST(Gemma4, HeadsOfTwoWidths) {
  const Model m = load(gemma4(R"("attention_k_eq_v": true, "hidden_size_per_layer_input": 0)"));
  const std::int64_t rest = 3 * 16 * 24 + 4 * 16;
  EXPECT_EQ(parameter_count(kind(m, "decoder.sliding")), 16 * 32 + 16 * 16 + 8 + rest);
  EXPECT_EQ(parameter_count(kind(m, "decoder")), 16 * 40 + 32 * 16 + 16 + rest);
  EXPECT_EQ(op(kind(m, "decoder"), "attn.core").kv_heads, 1);
  EXPECT_EQ(op(kind(m, "decoder"), "attn.rotary").in, (4 + 1) * 2);  // a quarter of 8 features
  EXPECT_EQ(order(m).back(), "head");
  EXPECT_EQ(m.layer(6).name, "decoder");
}

// The router has 16·3, a scale of 16 features and of 3 experts; experts 3·3·16·5; another three norms.
TEST(Gemma4, ExpertsBesideTheMlp) {
  const std::string experts = R"("enable_moe_block": true, "num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 5, )";
  const Model m = load(gemma4(experts + R"("hidden_size_per_layer_input": 0)"));
  const Model dense = load(gemma4(R"("hidden_size_per_layer_input": 0)"));
  EXPECT_EQ(parameter_count(kind(m, "decoder.moe.sliding")) - parameter_count(kind(dense, "decoder.sliding")),
            16 * 3 + 16 + 3 + 3 * 3 * 16 * 5 + 3 * 16);
}

// Own embeddings of 2 features for 6 blocks have a table of 12 · 10, a projection 16 · 12, a norm 2; in a block
// 2·16·2 and a norm 16. The last three blocks use keys of block 0 (2·2·4 features) and of block 2 (2·1·8): 12
// features travel after the embedding, 28 after block 0, 44 after 2.
TEST(Gemma4, OwnEmbeddingsAndSharedKeysTravelAlong) {
  const std::string types = R"("layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention",
    "sliding_attention", "full_attention"], "attention_k_eq_v": true, "use_double_wide_mlp": true, "num_kv_shared_layers": 3, )";
  const Model m = load(gemma4(types + R"("hidden_size_per_layer_input": 2, "vocab_size_per_layer_input": 10)"));
  EXPECT_EQ(parameter_count(m.layer(0)), 32 * 16 + 10 * 12 + 16 * 12 + 2);
  const std::int64_t rest = 3 * 16 * 24 + 4 * 16 + 2 * 16 * 2 + 16;
  EXPECT_EQ(parameter_count(m.layer(1)), 16 * 32 + 16 * 16 + 8 + rest);
  EXPECT_EQ(parameter_count(m.layer(4)), 16 * 16 + 16 * 16 + 4 + rest + 3 * 16 * 24);
  std::vector<std::int64_t> along;
  for (std::size_t i = 0; i + 1 < m.layers.size(); ++i) along.push_back(boundary_elements(m.layer(i), {.main = 1}) - 16);
  EXPECT_THAT(along, ElementsAre(12, 28, 28, 44, 44, 44, 0));
}

// Gemma 3n has two streams of 16. A block has 2³ + 2² + 16·2 + 2·16 for them and 2·16·3 + 16 parallel to attention;
// both ends have 16²; 32 features are passed on.
TEST(Gemma3n, StreamsPassFromBlockToBlock) {
  const Model m = load(R"({"model_type": "gemma3n_text", "hidden_size": 16, "intermediate_size": [24, 20], "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 32, "hidden_size_per_layer_input": 2,
    "vocab_size_per_layer_input": 10, "num_kv_shared_layers": 0, "altup_num_inputs": 2, "laurel_rank": 3,
    "layer_types": ["sliding_attention", "full_attention"]})");
  const std::int64_t rest = 16 * 32 + 256 + 8 + 4 * 16 + 2 * 16 * 2 + 16, streams = 8 + 4 + 32 + 32, low_rank = 96 + 16;
  EXPECT_EQ(parameter_count(m.layer(1)), rest + 3 * 16 * 24 + streams + low_rank);
  EXPECT_EQ(parameter_count(m.layer(2)), rest + 3 * 16 * 20 + streams + low_rank);
  EXPECT_EQ(parameter_count(m.layer(0)), 32 * 16 + 256 + 10 * 4 + 16 * 4 + 2);
  EXPECT_EQ(parameter_count(m.layer(3)), 256 + 16);
  EXPECT_EQ(boundary_elements(m.layer(1), {.main = 1}), 2 * 16 + 2 * 2);
}

TEST(Gemma4, WhatIsNotUnderstoodIsRefused) {
  EXPECT_THAT(error_of(gemma4(R"("hidden_size_per_layer_input": 0, "num_kv_shared_layers": 2)")),
              HasSubstr("num_kv_shared_layers = 2"));  // no full block before them
  EXPECT_THAT(error_of(gemma4(R"("hidden_size_per_layer_input": 0, "use_bidirectional_attention": "all")")), HasSubstr("causal"));
  EXPECT_THAT(error_of(gemma4(R"("hidden_size_per_layer_input": 0, "per_layer_config": {"0": {"head_dim": 4}})")),
              HasSubstr("per_layer_config"));
}

// There are two terms, each a product of 2 heads of 4 features with 2·5 positions. Their table and its norm belong to
// the embedding; they have no weights here.
TEST(Deberta, TermsOfRelativePositions) {
  const std::string sizes = R"({"model_type": "deberta-v2", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 2, "vocab_size": 32, "position_biased_input": false, "relative_attention": true, "position_buckets": 5,
    "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p", "share_att_key": )";
  const Model m = load(sizes + "true}"), own = load(sizes + "false}");
  const Operator& term = op(kind(m, "encoder"), "attn.term2");
  EXPECT_EQ(term.in * term.out, 8 * 10);
  EXPECT_EQ(term.parameters, 0);
  EXPECT_EQ(parameter_count(kind(m, "embedding")), 32 * 8 + 2 * 8 + 10 * 8 + 2 * 8);
  EXPECT_EQ(parameter_count(kind(own, "encoder")) - parameter_count(kind(m, "encoder")), 2 * (64 + 8));
  EXPECT_THAT(error_of(sizes + R"(true, "conv_kernel_size": 3, "conv_groups": 2})"), HasSubstr("one group"));
}

// The sizes for h = 8: attention 4·64 + 4·8, MLP 2·8·32 + 32 + 8, adaptive norm 6·64 + 48, step 256·8 + 8 + 64 + 8,
// class 11·8.
TEST(DiT, ParametersByHand) {
  const Model m =
      load(R"({"_class_name": "DiTTransformer2DModel", "num_attention_heads": 2, "attention_head_dim": 4, "num_layers": 3,
    "in_channels": 4, "out_channels": 8, "sample_size": 8, "patch_size": 2, "num_embeds_ada_norm": 10})");
  EXPECT_EQ(m.family, "dit");
  EXPECT_EQ(parameter_count(kind(m, "dit")), 288 + 552 + 432 + 2128 + 88);
  EXPECT_EQ(parameter_count(kind(m, "head")), 2 * 64 + 16 + 8 * 32 + 32);
  EXPECT_EQ(tokens_per_sample(kind(m, "dit"), {}), 16);
  EXPECT_THAT(error_of(R"({"model_type": "dit", "norm_type": "ada_norm_single"})"), HasSubstr("ada_norm_zero"));
}

std::string t5gemma(int decoder_width) {
  const auto stack = [](int width, int layers) {
    return R"({"hidden_size": )" + std::to_string(width) + R"(, "intermediate_size": 24, "num_hidden_layers": )" +
           std::to_string(layers) + R"(, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 32})";
  };
  return R"({"model_type": "t5gemma", "encoder": )" + stack(16, 2) + R"(, "decoder": )" + stack(decoder_width, 2) + "}";
}

// Self- and cross-attention each have 16·(8 + 2·4) + 8·16, the MLP 3·16·24; there are six norms. The first block
// looks up tokens in a separate table.
TEST(T5Gemma, ParametersByHand) {
  const Model m = load(t5gemma(16));
  EXPECT_THAT(order(m),
              ElementsAre("embedding", "encoder.sliding", "encoder.last", "decoder.sliding.first", "decoder.last", "head"));
  EXPECT_EQ(parameter_count(kind(m, "decoder.last")), 2 * 384 + 3 * 16 * 24 + 6 * 16);
  EXPECT_EQ(parameter_count(kind(m, "decoder.sliding.first")), parameter_count(kind(m, "decoder.last")) + 32 * 16);
  EXPECT_EQ(boundary_elements(kind(m, "decoder.sliding.first"), {.encoder = 4, .decoder = 2}), 2 * 16 + 4 * 16);
  EXPECT_THAT(error_of(t5gemma(8)), HasSubstr("unequal widths"));
}

// Swin V2 of width 8 with 2 heads has keys without bias, a scale a head, biases of 2·512 + 512 + 512·2. Merging norms
// its output of 16.
TEST(SwinV2, ParametersByHand) {
  const std::string sizes = R"({"model_type": ")",
                    rest = R"(", "image_size": 16, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
    "window_size": 2, "mlp_ratio": 2})";
  const Model first = load(sizes + "swin" + rest), second = load(sizes + "swinv2" + rest);
  EXPECT_EQ(parameter_count(kind(second, "swin.stage1")) - parameter_count(kind(first, "swin.stage1")),
            3 * 512 + 1024 + 2 - 9 * 2 - 8);
  EXPECT_EQ(op(kind(first, "swin.stage2.merge"), "merge.norm").parameters, 2 * 32);
  EXPECT_EQ(op(kind(second, "swin.stage2.merge"), "merge.norm").parameters, 2 * 16);
  EXPECT_EQ(op(kind(second, "swin.stage1"), "attn.q_norm").parameters, 0);
}

// Recordings have 10 tokens of 5 bins: convolutions 3·5·8 + 8 and 3·8·8 + 8, keys without bias, tokens pooled in
// pairs, norm 16, 8 · 16 + 16.
TEST(Sound, FramesStandInTheText) {
  const Model m =
      load(R"({"model_type": "qwen2_audio", "text_config": {"model_type": "qwen2", "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32}, "audio_config": {"d_model": 8,
    "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 12, "num_mel_bins": 5, "max_source_positions": 10}})");
  EXPECT_EQ(m.encoder_tokens, 10);
  const std::int64_t block = 32 + (8 * 24 + 16) + (64 + 8) + (8 * 12 + 12) + (12 * 8 + 8);
  EXPECT_EQ(parameter_count(kind(m, "tower.last")), block);
  EXPECT_EQ(parameter_count(kind(m, "tower.first")), block + 128 + 200);
  EXPECT_EQ(parameter_count(kind(m, "projector")), 16 + 128 + 16);
  EXPECT_EQ(tokens_per_sample(kind(m, "projector"), {.main = 64, .encoder = 10}), 5);
}

// Features of two layers of the tower are concatenated: 2·8 in, not 8.
TEST(Llava, ProjectsFeaturesOfSeveralLayers) {
  const auto model = [](const std::string& layers) {
    return load(R"({"model_type": "llava", "vision_feature_layer": )" + layers + R"(, "text_config": {"model_type": "llama",
      "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32},
      "vision_config": {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 2,
      "image_size": 4}})");
  };
  EXPECT_EQ(parameter_count(kind(model("-2"), "projector")), 8 * 16 + 16 + 16 * 16 + 16);
  EXPECT_EQ(parameter_count(kind(model("[-2, -1]"), "projector")), 16 * 16 + 16 + 16 * 16 + 16);
}

TEST(Dbrx, SizesStandInMappings) {
  const std::string sizes =
      R"({"model_type": "dbrx", "d_model": 16, "n_heads": 4, "n_layers": 1, "vocab_size": 32, "attn_config": {"kv_n_heads": 2},
    "ffn_config": {"ffn_hidden_size": 6, "moe_num_experts": 3, "moe_top_k": )";
  EXPECT_EQ(parameter_count(kind(load(sizes + "2}}"), "decoder.moe")), 16 * 32 + 256 + 48 + 3 * 3 * 16 * 6 + 32);
  EXPECT_THAT(error_of(sizes + "4}}"), HasSubstr("moe_top_k = 4"));
  EXPECT_THAT(error_of(sizes + R"(2}, "num_key_value_heads": 4})"), HasSubstr("kv_n_heads, 2"));
}

}  // namespace
}  // namespace espalier::model::testing::newer_forms_test
