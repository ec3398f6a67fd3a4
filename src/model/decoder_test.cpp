// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;

// The model is GPT-style with biases and learned positions: 12h² + 13h a block = 49984 for h = 64.
TEST(MakeDecoder, GptStyle) {
  const auto m = make_decoder({.layers = 2,
                               .hidden = 64,
                               .ffn = 256,
                               .heads = 4,
                               .kv_heads = 4,
                               .vocabulary = 100,
                               .head_dim = 16,
                               .dropout = true,
                               .max_positions = 128},
                              "run");
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(parameter_count(*m), 228 * 64 + 2 * 49984 + 128);
  EXPECT_EQ(m->name, "run");
  EXPECT_TRUE(op(kind(*m, "decoder"), "attn.core").score_dropout);
}

/// A config.json of the same sizes gives the same layers.
TEST(MakeDecoder, EqualsTheFamilies) {
  const auto gpt = make_decoder(
      {.layers = 2, .hidden = 64, .ffn = 256, .heads = 4, .vocabulary = 100, .dropout = true, .max_positions = 128}, "gpt");
  const Model gpt2 =
      load(R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 100})");
  ASSERT_TRUE(gpt.ok()) << gpt.error().message();
  EXPECT_EQ(gpt->kinds, gpt2.kinds);
  const auto llama = make_decoder({.layers = 2,
                                   .hidden = 64,
                                   .ffn = 96,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .vocabulary = 100,
                                   .gated = true,
                                   .rms_norm = true,
                                   .biases = false,
                                   .tied = false,
                                   .learned_positions = false,
                                   .rotary = true},
                                  "llama");
  const Model hf = load(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100})");
  ASSERT_TRUE(llama.ok()) << llama.error().message();
  EXPECT_EQ(llama->kinds, hf.kinds);
}

TEST(MakeDecoder, ExpertsAndEncoder) {
  const auto moe = make_decoder({.layers = 1,
                                 .hidden = 64,
                                 .ffn = 96,
                                 .heads = 4,
                                 .vocabulary = 100,
                                 .gated = true,
                                 .biases = false,
                                 .learned_positions = false,
                                 .experts = 8,
                                 .top_k = 2},
                                "moe");
  ASSERT_TRUE(moe.ok());
  EXPECT_EQ(op(kind(*moe, "decoder.moe"), "mlp.expert_down").parameters, 8 * 96 * 64);
  const auto bert = make_decoder(
      {.layers = 1, .hidden = 64, .ffn = 96, .heads = 4, .vocabulary = 100, .max_positions = 8, .encoder_only = true}, "bert");
  ASSERT_TRUE(bert.ok());
  EXPECT_FALSE(op(kind(*bert, "encoder"), "attn.core").causal);
}

TEST(MakeDecoder, RefusesWhatCannotBe) {
  const DecoderShape good{.layers = 2, .hidden = 64, .ffn = 256, .heads = 4, .vocabulary = 100, .max_positions = 128};
  EXPECT_TRUE(make_decoder(good, "x").ok());
  for (auto field : {&DecoderShape::layers, &DecoderShape::hidden, &DecoderShape::ffn, &DecoderShape::heads,
                     &DecoderShape::vocabulary, &DecoderShape::max_positions}) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
      DecoderShape bad = good;
      bad.*field = value;
      EXPECT_FALSE(make_decoder(bad, "x").ok());
    }
  }
  DecoderShape bad = good;
  bad.heads = 5;
  EXPECT_FALSE(make_decoder(bad, "x").ok());
  bad = good;
  bad.kv_heads = 3;
  EXPECT_FALSE(make_decoder(bad, "x").ok());
  bad = good;
  bad.experts = 4;
  bad.top_k = 5;
  EXPECT_FALSE(make_decoder(bad, "x").ok());
}

}  // namespace
}  // namespace espalier::model
