// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::t5_test {
namespace {

using namespace model::testing;
using ::testing::ElementsAre;

// The sizes are d_model 32, 4 heads of 16 (inner 64 ≠ 32), d_ff 48: attention 4·32·64 = 8192, MLP 2·32·48 = 3072.
std::string small(const std::string& more = "") {
  return R"({"model_type": "t5", "d_model": 32, "d_kv": 16, "num_heads": 4, "d_ff": 48, "num_layers": 3, "vocab_size": 100)" +
         more + "}";
}

TEST(T5, CountByHand) {
  const Model m = load(small());
  const std::int64_t encoder = 8192 + 3072 + 2 * 32, decoder = 2 * 8192 + 3072 + 3 * 32, bias = 32 * 4, norms = 2 * 32;
  EXPECT_EQ(parameter_count(m), 100 * 32 + 3 * encoder + 3 * decoder + 2 * bias + norms);
  EXPECT_EQ(parameter_count(kind(m, "encoder")), encoder);
  EXPECT_EQ(parameter_count(kind(m, "encoder.first")), encoder + bias);
  EXPECT_EQ(parameter_count(kind(m, "encoder.last")), encoder + 32);
  EXPECT_EQ(parameter_count(kind(m, "decoder.first")), decoder + bias);
  EXPECT_THAT(order(m), ElementsAre("embedding", "encoder.first", "encoder", "encoder.last", "decoder.first", "decoder",
                                    "decoder.last", "head"));
}

TEST(T5, DecoderBlock) {
  const Model m = load(small());
  EXPECT_THAT(names(kind(m, "decoder")),
              ElementsAre("attn.norm", "attn.qkv", "attn.core", "attn.out", "attn.dropout", "attn.residual", "cross.norm",
                          "cross.q", "cross.kv", "cross.core", "cross.out", "cross.dropout", "cross.residual", "mlp.norm",
                          "mlp.up", "mlp.activation", "mlp.inner_dropout", "mlp.down", "mlp.dropout", "mlp.residual"));
  EXPECT_TRUE(op(kind(m, "decoder"), "attn.core").causal);
  EXPECT_FALSE(op(kind(m, "encoder"), "attn.core").causal);
  EXPECT_TRUE(op(kind(m, "decoder"), "cross.core").cross);
  EXPECT_TRUE(op(kind(m, "decoder"), "cross.kv").cross);
}

TEST(T5, TwoSequencesAndWhatTravels) {
  const Model m = load(small());
  const Sequence s{.encoder = 20, .decoder = 6};
  EXPECT_EQ(tokens_per_sample(kind(m, "encoder"), s), 20);
  EXPECT_EQ(tokens_per_sample(kind(m, "decoder"), s), 6);
  EXPECT_EQ(boundary_elements(kind(m, "encoder.last"), s), 20 * 32);
  EXPECT_EQ(boundary_elements(kind(m, "decoder"), s), 6 * 32 + 20 * 32);
  EXPECT_EQ(boundary_elements(kind(m, "decoder.last"), s), 6 * 32);  // the head does not need the encoder
}

// A decoder block has 6 tokens, and an encoder of 20. Self attention has GEMMs 2·6·8192 and scores 2·4·32·6·6 (half:
// ·3). Cross-attention has q and out 2·6·4096, keys and values 2·20·4096, scores 2·4·32·6·20. The MLP has 2·6·3072.
TEST(T5, CrossAttentionFlops) {
  const Model m = load(small());
  const double self = 2 * 6 * 8192 + 256 * 6 * 6, cross = 2 * 6 * 4096 + 2 * 20 * 4096 + 256 * 6 * 20, mlp = 2 * 6 * 3072;
  EXPECT_EQ(forward_flops(kind(m, "decoder"), {.encoder = 20, .decoder = 6}, false).count(), self + cross + mlp);
  EXPECT_EQ(forward_flops(kind(m, "decoder"), {.encoder = 20, .decoder = 6}, true).count(), self - 256 * 6 * 3 + cross + mlp);
}

TEST(T5, Version11IsGatedAndUntied) {
  const Model m = load(small(R"(, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "dropout_rate": 0.0)"));
  EXPECT_EQ(op(kind(m, "encoder"), "mlp.gate_up").out, 96);
  EXPECT_EQ(op(kind(m, "head"), "head.logits").parameters, 3200);
  EXPECT_FALSE(op(kind(m, "encoder"), "attn.core").score_dropout);
}

TEST(T5, OneBlockPerStack) {
  const Model m = load(R"({"model_type": "t5", "d_model": 32, "d_kv": 16, "num_heads": 4, "d_ff": 48, "num_layers": 1,
    "num_decoder_layers": 2, "vocab_size": 100})");
  EXPECT_THAT(order(m), ElementsAre("embedding", "encoder.first.last", "decoder.first", "decoder.last", "head"));
}

}  // namespace
}  // namespace espalier::model::t5_test
