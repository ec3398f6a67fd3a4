// SPDX-License-Identifier: Apache-2.0
// Tests the generic description: what it accepts, counted by hand, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string described(const std::string& blocks, const std::string& more = "") {
  return R"({"hidden": 16, "vocabulary": 64)" + more + R"(, "blocks": [)" + blocks + "]}";
}

// Attention has 16·(16 + 2·8) + 16·16, the MLP 3·16·24; there are two norms.
TEST(Blocks, OneKindByHand) {
  const Model m = load(described(R"({"count": 3, "heads": 4, "kv_heads": 2, "ffn": 24})"));
  EXPECT_EQ(m.family, "blocks");
  EXPECT_THAT(order(m), ElementsAre("embedding", "attention", "attention", "attention", "head"));
  EXPECT_EQ(parameter_count(kind(m, "attention")), 16 * 32 + 16 * 16 + 3 * 16 * 24 + 32);
  EXPECT_EQ(parameter_count(m), 64 * 16 + 3 * (512 + 256 + 1152 + 32) + 16 + 16 * 64);
}

TEST(Blocks, APatternIsRepeated) {
  const Model m = load(described(R"({"mixer": "conv", "ffn": 24}, {"heads": 4, "experts": 4, "top_k": 2, "ffn": 8, "shared": 8})",
                                 R"(, "repeat": 2, "tied": true)"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "conv", "attention.moe", "conv", "attention.moe", "head"));
  EXPECT_EQ(op(kind(m, "attention.moe"), "mlp.expert_gate_up").experts, 4);
  EXPECT_TRUE(m.tied_embeddings);
}

TEST(Blocks, UnlikeBlocksOfOneMixerAreKinds) {
  const Model m = load(described(R"({"heads": 4, "ffn": 24}, {"heads": 4, "window": 8, "ffn": 24}, {"heads": 4, "ffn": 24})"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "attention", "attention#2", "attention", "head"));
  EXPECT_EQ(op(kind(m, "attention#2"), "attn.core").window, 8);
}

TEST(Blocks, MixersAreThoseOfTheFamilies) {
  const Model m = load(described(R"({"mixer": "gated_delta", "linear_num_key_heads": 2, "linear_num_value_heads": 2,
    "linear_key_head_dim": 4, "linear_value_head_dim": 4})"));
  EXPECT_EQ(op(kind(m, "gated_delta"), "delta.in").out, 4 * 8 + 2 * 2);
  EXPECT_EQ(load(described(R"({"mixer": "mamba2", "mamba_n_heads": 4, "ffn": 8})")).blocks(), 1);
}

TEST(Blocks, LearnedPositionsAndEncoders) {
  const Model m =
      load(described(R"({"heads": 4, "ffn": 24, "gated": false})", R"(, "positions": 32, "causal": false, "norm": "layer")"));
  EXPECT_EQ(m.max_positions, 32);
  EXPECT_FALSE(op(kind(m, "attention"), "attn.core").causal);
  EXPECT_EQ(op(kind(m, "embedding"), "embed.position").parameters, 32 * 16);
}

TEST(Blocks, WhatIsNotUnderstoodRefuses) {
  EXPECT_THAT(error_of(described(R"({"heads": 4, "fnn": 24})")), HasSubstr("did you mean \"ffn\""));
  EXPECT_THAT(error_of(described("")), HasSubstr("at least one"));
  EXPECT_THAT(error_of(described(R"({"heads": 3, "ffn": 24})")), HasSubstr("a divisor of hidden = 16"));
  EXPECT_THAT(error_of(described(R"({"heads": 4, "experts": 2, "top_k": 4, "ffn": 8})")), HasSubstr("at most experts = 2"));
  EXPECT_THAT(error_of(described(R"({"heads": 4, "experts": 2, "top_k": 1})")), HasSubstr("the width of one expert"));
  EXPECT_THAT(error_of(described(R"({"mixer": "rwkv"})")), HasSubstr("rwkv"));
  EXPECT_THAT(error_of(described(R"({"heads": 4, "ffn": 24, "count": 4096})", R"(, "repeat": 4096)")), HasSubstr("at most 4096"));
  EXPECT_THAT(error_of(described(R"({"heads": 4, "ffn": 24})", R"(, "hidden_size": 8)")), HasSubstr("hidden_size"));
}

}  // namespace
}  // namespace espalier::model::testing
