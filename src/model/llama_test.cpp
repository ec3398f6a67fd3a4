// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "model/testing.h"

namespace espalier::model::llama_test {
namespace {

using namespace model::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Holds sizes shared by the small models below; `more` must not repeat them.
std::string small(const std::string& type, const std::string& more = "") {
  return "{\"model_type\": \"" + type + R"(", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100)" +
         (more.empty() ? "" : ", ") + more + "}";
}

TEST(Llama, BlockIsCompleteAndInOrder) {
  const Model m = load(small("llama"));
  EXPECT_THAT(names(kind(m, "decoder")),
              ElementsAre("attn.norm", "attn.qkv", "attn.rotary", "attn.core", "attn.out", "attn.residual", "mlp.norm",
                          "mlp.gate_up", "mlp.activation", "mlp.down", "mlp.residual"));
  EXPECT_THAT(names(kind(m, "embedding")), ElementsAre("embed.token"));
  EXPECT_THAT(names(kind(m, "head")), ElementsAre("head.norm", "head.logits", "head.loss"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "decoder", "decoder", "decoder", "decoder", "head"));
}

// The sizes are head_dim 64/8 = 8: qkv 64 -> (8 + 2·2)·8 = 96, rotary over (8 + 2)·8 = 80, out 64 -> 64, gate_up 64
// -> 192, down 96 -> 64.
TEST(Llama, Shapes) {
  const Model m = load(small("llama"));
  const LayerKind& block = kind(m, "decoder");
  EXPECT_EQ(op(block, "attn.qkv").out, 96);
  EXPECT_EQ(op(block, "attn.qkv").split, TpSplit::column);
  EXPECT_EQ(op(block, "attn.rotary").in, 80);
  EXPECT_EQ(op(block, "attn.core").heads, 8);
  EXPECT_EQ(op(block, "attn.core").kv_heads, 2);
  EXPECT_EQ(op(block, "attn.core").qk_dim, 8);
  EXPECT_TRUE(op(block, "attn.core").causal);
  EXPECT_FALSE(op(block, "attn.core").score_dropout);
  EXPECT_EQ(op(block, "attn.out").split, TpSplit::row);
  EXPECT_EQ(op(block, "mlp.gate_up").out, 192);
  EXPECT_EQ(op(block, "mlp.activation").in, 192);
  EXPECT_EQ(op(block, "mlp.activation").out, 96);
  EXPECT_EQ(op(block, "mlp.down").in, 96);
  EXPECT_EQ(op(kind(m, "head"), "head.loss").in, 100);
  EXPECT_EQ(m.vocabulary, 100);
  EXPECT_EQ(m.max_positions, 0);
}

TEST(Llama, BiasKeys) {
  const Model m = load(small("llama", R"("attention_bias": true, "mlp_bias": true)"));
  const LayerKind& block = kind(m, "decoder");
  EXPECT_EQ(op(block, "attn.qkv").parameters, 64 * 96 + 96);
  EXPECT_EQ(op(block, "attn.out").parameters, 64 * 64 + 64);
  EXPECT_EQ(op(block, "attn.out").parameters_unsplit, 64);
  EXPECT_EQ(op(block, "mlp.gate_up").parameters, 64 * 192 + 192);
  EXPECT_EQ(op(block, "mlp.down").parameters_unsplit, 64);
}

TEST(Llama, TiedLogitsHaveNoParameters) {
  const Model m = load(small("llama", R"("tie_word_embeddings": true)"));
  EXPECT_TRUE(m.tied_embeddings);
  EXPECT_EQ(op(kind(m, "head"), "head.logits").parameters, 0);
  EXPECT_EQ(op(kind(m, "head"), "head.logits").out, 100);
}

// Absent and null differ: qwen3's class default is 32 heads, null means no grouping.
TEST(Llama, AbsentIsNotNull) {
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 64, "intermediate_size": 96,
    "vocab_size": 100, "head_dim": 4)";
  EXPECT_EQ(op(kind(load("{\"model_type\": \"qwen3\", " + sizes + "}"), "decoder"), "attn.core").kv_heads, 32);
  const Model null = load("{\"model_type\": \"qwen3\", \"num_key_value_heads\": null, " + sizes + "}");
  EXPECT_EQ(op(kind(null, "decoder"), "attn.core").kv_heads, 64);
  EXPECT_EQ(op(kind(load("{\"model_type\": \"llama\", " + sizes + "}"), "decoder"), "attn.core").kv_heads, 64);
}

TEST(Llama, Version5Keys) {
  const Model m = load(small("llama", R"("dtype": "bfloat16", "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"},
    "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])"));
  EXPECT_EQ(m.kinds.size(), 3u);
  EXPECT_FALSE(noted(m, ModelNote::Kind::ignored, "rope_parameters"));
}

TEST(Llama, NotesDefaultedAndUnknownKeys) {
  const Model m = load(small("llama", R"("flux_capacitors": 3, "bos_token_id": 1)"));
  EXPECT_TRUE(noted(m, ModelNote::Kind::defaulted, "tie_word_embeddings"));
  EXPECT_TRUE(noted(m, ModelNote::Kind::defaulted, "head_dim"));
  EXPECT_TRUE(noted(m, ModelNote::Kind::ignored, "flux_capacitors"));
  EXPECT_FALSE(noted(m, ModelNote::Kind::ignored, "bos_token_id"));
}

TEST(Mistral, WindowOnEveryLayerUnlessNull) {
  EXPECT_EQ(op(kind(load(small("mistral", R"("sliding_window": 4096)")), "decoder.sliding"), "attn.core").window, 4096);
  EXPECT_EQ(op(kind(load(small("mistral", R"("sliding_window": null)")), "decoder"), "attn.core").window, 0);
}

// Mistral-Nemo has heads·head_dim ≠ hidden.
TEST(Mistral, HeadDimOfItsOwn) {
  const Model m = load(small("mistral", R"("head_dim": 16, "sliding_window": null)"));
  EXPECT_EQ(op(kind(m, "decoder"), "attn.qkv").out, (8 + 4) * 16);
  EXPECT_EQ(op(kind(m, "decoder"), "attn.out").in, 8 * 16);
  EXPECT_EQ(op(kind(m, "decoder"), "attn.out").out, 64);
}

TEST(Qwen2, BiasOnQkvOnly) {
  const Model m = load(small("qwen2", R"("use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 2)"));
  EXPECT_EQ(op(kind(m, "decoder"), "attn.qkv").parameters, 64 * 96 + 96);
  EXPECT_EQ(op(kind(m, "decoder"), "attn.out").parameters, 64 * 64);
}

TEST(Qwen2, WindowFromMaxWindowLayersOn) {
  const Model m = load(small("qwen2", R"("use_sliding_window": true, "sliding_window": 128, "max_window_layers": 2)"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "decoder", "decoder", "decoder.sliding", "decoder.sliding", "head"));
}

// There is one weight vector of head_dim for all query heads and one for all key heads, replicated under TP.
TEST(Qwen3, HeadNorms) {
  const Model m = load(small("qwen3", R"("head_dim": 32)"));
  const LayerKind& block = kind(m, "decoder");
  EXPECT_EQ(op(block, "attn.q_norm").in, 8 * 32);
  EXPECT_EQ(op(block, "attn.k_norm").in, 2 * 32);
  EXPECT_EQ(op(block, "attn.q_norm").split, TpSplit::heads);
  EXPECT_EQ(op(block, "attn.q_norm").parameters, 32);
  EXPECT_EQ(op(block, "attn.k_norm").parameters_unsplit, 32);
}

TEST(Qwen3Moe, SparseStepAndDenseLayers) {
  const std::string moe = R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24)";
  EXPECT_THAT(order(load(small("qwen3_moe", moe + R"(, "decoder_sparse_step": 2)"))),
              ElementsAre("embedding", "decoder", "decoder.moe", "decoder", "decoder.moe", "head"));
  EXPECT_THAT(order(load(small("qwen3_moe", moe + R"(, "mlp_only_layers": [0])"))),
              ElementsAre("embedding", "decoder", "decoder.moe", "decoder.moe", "decoder.moe", "head"));
  EXPECT_THAT(order(load(small("qwen3_moe", moe + R"(, "mlp_layer_types": ["sparse", "dense", "sparse", "dense"])"))),
              ElementsAre("embedding", "decoder.moe", "decoder", "decoder.moe", "decoder", "head"));
}

// The router has 64·4, the experts 4·3·64·96; two of four experts work on a token.
TEST(Mixtral, ExpertsCountFullyAndWorkByTopK) {
  const Model m = load(small("mixtral", R"("num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": null)"));
  const LayerKind& block = kind(m, "decoder.moe");
  EXPECT_THAT(names(block), ElementsAre("attn.norm", "attn.qkv", "attn.rotary", "attn.core", "attn.out", "attn.residual",
                                        "mlp.norm", "mlp.router", "mlp.dispatch", "mlp.expert_gate_up", "mlp.expert_activation",
                                        "mlp.expert_down", "mlp.combine", "mlp.residual"));
  EXPECT_EQ(op(block, "mlp.router").parameters_unsplit, 256);
  EXPECT_EQ(op(block, "mlp.expert_gate_up").parameters, 4 * 64 * 192);
  EXPECT_EQ(op(block, "mlp.expert_down").parameters, 4 * 96 * 64);
  EXPECT_EQ(op(block, "mlp.expert_down").top_k, 2);
  EXPECT_EQ(parameter_count(m) - active_parameter_count(m), 4 * 2 * 3 * 64 * 96);  // 4 layers, 2 idle experts
  const double gemms = 64 * 96 + 64 * 64 + 64 * 4 + 2 * 3 * 64 * 96;
  EXPECT_EQ(forward_flops(block, {.main = 10}, false).count(), 2 * 10 * gemms + 2 * 8 * 16 * 100);
}

TEST(Gemma2, FourNormsAlternatingWindowsSoftcap) {
  const Model m = load(small("gemma2", R"("head_dim": 8, "sliding_window": 32, "final_logit_softcapping": 30.0)"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "decoder.sliding", "decoder", "decoder.sliding", "decoder", "head"));
  EXPECT_THAT(names(kind(m, "decoder")),
              ElementsAre("attn.norm", "attn.qkv", "attn.rotary", "attn.core", "attn.out", "attn.post_norm", "attn.residual",
                          "mlp.norm", "mlp.gate_up", "mlp.activation", "mlp.down", "mlp.post_norm", "mlp.residual"));
  EXPECT_THAT(names(kind(m, "head")), ElementsAre("head.norm", "head.logits", "head.softcap", "head.loss"));
  EXPECT_TRUE(m.tied_embeddings);
}

TEST(Gemma3, EveryPatternthLayerIsFull) {
  const Model m = load(small("gemma3_text", R"("head_dim": 8, "sliding_window": 32, "sliding_window_pattern": 3)"));
  EXPECT_THAT(order(m), ElementsAre("embedding", "decoder.sliding", "decoder.sliding", "decoder", "decoder.sliding", "head"));
  EXPECT_EQ(op(kind(m, "decoder"), "attn.q_norm").parameters, 8);
}

TEST(Gemma3, WithoutATowerTheNestedTextIsPlanned) {
  const Model m = load(R"({"model_type": "gemma3", "vision_config": null, "text_config": {"hidden_size": 64,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100}})");
  EXPECT_EQ(m.family, "gemma3");
  EXPECT_EQ(op(kind(m, "decoder.sliding"), "attn.core").qk_dim, 256);  // class default
  EXPECT_TRUE(noted(m, ModelNote::Kind::derived, "vision_config"));
  EXPECT_FALSE(m.tower);
}

TEST(Phi3, PartialRotary) {
  const Model m = load(small("phi3", R"("partial_rotary_factor": 0.5, "resid_pdrop": 0.1)"));
  EXPECT_EQ(op(kind(m, "decoder"), "attn.rotary").in, 10 * 4);
  EXPECT_EQ(op(kind(m, "decoder"), "mlp.dropout").in, 64);
}

TEST(Llama, RefusesImpossibleSizes) {
  EXPECT_THAT(error_of(R"({"model_type": "llama", "hidden_size": 100, "num_hidden_layers": 1, "num_attention_heads": 8,
    "intermediate_size": 8, "vocab_size": 10})"),
              HasSubstr("a divisor of hidden_size = 100"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8,
    "num_key_value_heads": 3, "intermediate_size": 8, "vocab_size": 10})"),
              HasSubstr("a divisor of num_attention_heads = 8"));
  EXPECT_THAT(error_of(small("llama", R"("layer_types": ["full_attention"])")), HasSubstr("4 entries, one per layer"));
  EXPECT_THAT(error_of(small("llama", R"("layer_types": ["conv", "conv", "conv", "conv"])")), HasSubstr("conv"));
  EXPECT_THAT(error_of(small("mixtral", R"("num_local_experts": 4, "num_experts_per_tok": 5)")),
              HasSubstr("at most the number of experts"));
  EXPECT_THAT(error_of(small("llama", R"("per_layer_config": {"00": {"intermediate_size": 4}})")), HasSubstr("per_layer_config"));
}

// The parameters of any llama are V·h·(2 − tied) + L·(h·(H + 2KV)·d + H·d·h + 3·h·f + 2h) + h.
TEST(Llama, CountFormulaHoldsForAllShapes) {
  rc::check([] {
    const auto kv = *rc::gen::inRange<std::int64_t>(1, 5), heads = kv * *rc::gen::inRange<std::int64_t>(1, 5);
    const auto d = *rc::gen::inRange<std::int64_t>(1, 9), h = *rc::gen::inRange<std::int64_t>(1, 200);
    const auto f = *rc::gen::inRange<std::int64_t>(1, 300), layers = *rc::gen::inRange<std::int64_t>(1, 9);
    const auto v = *rc::gen::inRange<std::int64_t>(1, 500);
    const bool tied = *rc::gen::arbitrary<bool>();
    const auto key = [](const char* name, std::int64_t value) {
      return std::string("\"") + name + "\": " + std::to_string(value) + ", ";
    };
    const Model m =
        load("{" + key("hidden_size", h) + key("head_dim", d) + key("num_attention_heads", heads) +
             key("num_key_value_heads", kv) + key("intermediate_size", f) + key("num_hidden_layers", layers) +
             key("vocab_size", v) + "\"tie_word_embeddings\": " + (tied ? "true" : "false") + ", \"model_type\": \"llama\"}");
    RC_ASSERT(parameter_count(m) ==
              v * h * (tied ? 1 : 2) + layers * (h * (heads + 2 * kv) * d + heads * d * h + 3 * h * f + 2 * h) + h);
    std::int64_t unsplit = 0;
    for (const Operator& o : kind(m, "decoder").operators) unsplit += o.parameters_unsplit;
    RC_ASSERT(unsplit == 2 * h);
  });
}

}  // namespace
}  // namespace espalier::model::llama_test
