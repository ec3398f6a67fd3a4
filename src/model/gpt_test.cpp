// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kGpt2 =
    R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 100)";

// A block has 12h² + 13h = 12·4096 + 13·64 = 49984; embedding 100·64 + 128·64; final norm 128; tied logits.
TEST(Gpt2, ByHand) {
  const Model m = load(kGpt2 + "}");
  EXPECT_EQ(parameter_count(kind(m, "decoder")), 49984);
  EXPECT_EQ(parameter_count(m), 228 * 64 + 2 * 49984 + 128);
  EXPECT_EQ(m.max_positions, 128);
  EXPECT_TRUE(m.tied_embeddings);
  EXPECT_THAT(names(kind(m, "decoder")),
              ElementsAre("attn.norm", "attn.qkv", "attn.core", "attn.out", "attn.dropout", "attn.residual", "mlp.norm", "mlp.up",
                          "mlp.activation", "mlp.down", "mlp.dropout", "mlp.residual"));
  EXPECT_THAT(names(kind(m, "embedding")), ElementsAre("embed.token", "embed.position", "embed.add_position", "embed.dropout"));
  EXPECT_TRUE(op(kind(m, "decoder"), "attn.core").score_dropout);
  EXPECT_EQ(op(kind(m, "embedding"), "embed.position").parameters_unsplit, 128 * 64);
  EXPECT_EQ(op(kind(m, "embedding"), "embed.token").parameters_unsplit, 0);
}

TEST(Gpt2, NoDropoutOperatorsAtRateZero) {
  const Model m = load(kGpt2 + R"(, "resid_pdrop": 0.0, "embd_pdrop": 0, "attn_pdrop": 0.0, "n_inner": 100})");
  EXPECT_FALSE(op(kind(m, "decoder"), "attn.core").score_dropout);
  EXPECT_EQ(op(kind(m, "decoder"), "mlp.up").out, 100);
  for (const LayerKind& layer : m.kinds) {
    for (const Operator& o : layer.operators) EXPECT_NE(o.kind, OperatorKind::dropout) << o.name;
  }
}

TEST(Gpt2, CrossAttentionIsRefused) {
  EXPECT_THAT(error_of(kGpt2 + R"(, "add_cross_attention": true})"), HasSubstr("add_cross_attention"));
}

const std::string kOpt =
    R"({"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 256,
  "max_position_embeddings": 128, "vocab_size": 100)";

TEST(Opt, TwoMorePositionsAndFinalNorm) {
  const Model m = load(kOpt + "}");
  EXPECT_EQ(parameter_count(m), (100 + 130) * 64 + 2 * 49984 + 128);
}

// opt-350m's form has tokens of width 32 projected in and out, norms after the residuals, no final norm.
TEST(Opt, NarrowEmbeddingAndPostNorm) {
  const Model m = load(kOpt + R"(, "word_embed_proj_dim": 32, "do_layer_norm_before": false})");
  EXPECT_EQ(parameter_count(m), 100 * 32 + 32 * 64 + 130 * 64 + 2 * 49984 + 64 * 32);
  EXPECT_EQ(names(kind(m, "decoder")).back(), "mlp.norm");
  EXPECT_EQ(names(kind(m, "head")).front(), "head.project_out");
}

TEST(Bloom, AlibiAndEmbeddingNorm) {
  const Model m = load(R"({"model_type": "bloom", "n_embed": 64, "n_layer": 2, "num_attention_heads": 4, "vocab_size": 100})");
  EXPECT_EQ(parameter_count(m), 100 * 64 + 128 + 2 * 49984 + 128);
  EXPECT_EQ(m.max_positions, 0);
}

TEST(GptNeox, PartialRotaryUntied) {
  const Model m = load(R"({"model_type": "gpt_neox", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 256, "rotary_pct": 0.25, "vocab_size": 100})");
  EXPECT_EQ(parameter_count(m), 2 * 100 * 64 + 2 * 49984 + 128);
  EXPECT_EQ(op(kind(m, "decoder"), "attn.rotary").in, 8 * 4);
}

const std::string kBert = R"({"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
  "intermediate_size": 256, "max_position_embeddings": 128, "type_vocab_size": 2, "vocab_size": 100)";

// Embeddings have (100 + 128 + 2)·64 + 128; the head: transform 64² + 64, norm 128, decoder bias 100.
TEST(Bert, MaskedTokenTraining) {
  const Model m = load(kBert + R"(, "architectures": ["BertForMaskedLM"]})");
  EXPECT_EQ(parameter_count(m), 230 * 64 + 128 + 2 * 49984 + 4160 + 128 + 100);
  EXPECT_FALSE(op(kind(m, "encoder"), "attn.core").causal);
  EXPECT_EQ(names(kind(m, "encoder")).front(), "attn.qkv");  // norms come after the residuals
  EXPECT_EQ(names(kind(m, "encoder")).back(), "mlp.norm");
  EXPECT_EQ(op(kind(m, "head"), "head.logits").parameters, 100);
}

// The pooler has 64² + 64 and the next-sentence classifier 2·64 + 2.
TEST(Bert, PreTrainingAddsPoolerAndNextSentence) {
  const Model masked = load(kBert + "}"), both = load(kBert + R"(, "architectures": ["BertForPreTraining"]})");
  EXPECT_EQ(parameter_count(both) - parameter_count(masked), 4160 + 130);
}

// The whole score matrix is needed, so causal_half changes nothing.
TEST(Bert, NotCausal) {
  const Model m = load(kBert + "}");
  EXPECT_EQ(forward_flops(kind(m, "encoder"), {.main = 32}, true).count(),
            forward_flops(kind(m, "encoder"), {.main = 32}, false).count());
}

}  // namespace
}  // namespace espalier::model
