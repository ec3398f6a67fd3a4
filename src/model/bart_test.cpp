// SPDX-License-Identifier: Apache-2.0
// Counts small BART and Whisper models by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::testing::bart_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string small(const std::string& type, const std::string& more = "") {
  return R"({"model_type": ")" + type + R"(", "d_model": 8, "vocab_size": 32, "encoder_layers": 2, "encoder_ffn_dim": 16,
    "encoder_attention_heads": 2, "decoder_layers": 2, "decoder_ffn_dim": 16, "decoder_attention_heads": 2)" +
         more + "}";
}

// Attention has 4·64 + 4·8, an MLP 2·8·16 + 16 + 8, a norm 16; positions (10 + 2)·8 and a norm for each stack.
TEST(Bart, ParametersByHand) {
  const Model m = load(small("bart", R"(, "max_position_embeddings": 10)"));
  const std::int64_t attention = 4 * 64 + 32, mlp = 2 * 128 + 24, stack = 12 * 8 + 16;
  EXPECT_EQ(parameter_count(kind(m, "encoder")), attention + mlp + 2 * 16);
  EXPECT_EQ(parameter_count(kind(m, "decoder.last")), 2 * attention + mlp + 3 * 16);
  EXPECT_EQ(parameter_count(m), 32 * 8 + 2 * stack + 2 * (attention + mlp + 32) + 2 * (2 * attention + mlp + 48));
  EXPECT_THAT(order(m), ElementsAre("embedding", "encoder", "encoder.last", "decoder.first", "decoder.last", "head"));
}

// The decoder's tokens come first and travel along past the encoder. Keys have no bias. Convolutions have 3·4·8 + 8
// and 3·8·8 + 8.
TEST(Whisper, FramesAreTheEncodersSequence) {
  const Model m = load(small("whisper", R"(, "num_mel_bins": 4, "max_source_positions": 6, "max_target_positions": 5)"));
  const Sequence sequence{.main = 0, .encoder = 6, .decoder = 5};
  EXPECT_EQ(m.encoder_tokens, 6);
  EXPECT_EQ(op(kind(m, "encoder.first"), "frames.conv1").parameters, 3 * 4 * 8 + 8);
  EXPECT_EQ(op(kind(m, "encoder.first"), "frames.conv1").in, 2 * 3 * 4);  // two frames make a token
  EXPECT_EQ(op(kind(m, "encoder.first"), "frames.conv2").parameters, 3 * 8 * 8 + 8);
  EXPECT_EQ(op(kind(m, "encoder.last"), "attn.qkv").parameters, 3 * 64 + 16);
  EXPECT_EQ(boundary_elements(kind(m, "embedding"), sequence), 5 * 8);
  EXPECT_EQ(boundary_elements(kind(m, "encoder.last"), sequence), 6 * 8 + 5 * 8);
  EXPECT_EQ(boundary_elements(kind(m, "decoder"), sequence), 5 * 8 + 6 * 8);
}

TEST(Bart, TwoVocabulariesRefuse) {
  EXPECT_THAT(error_of(small("marian", R"(, "decoder_vocab_size": 16)")), HasSubstr("both stacks share one table"));
}

// In DeepSeek-V3.2 the indexer scores every earlier token, and attention reads the best of them. All of 64 tokens but
// the first 8 read 8.
TEST(SparseAttention, ReadsWhatTheIndexerChooses) {
  const std::string config =
      R"({"model_type": "deepseek_v32", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "intermediate_size": 48, "vocab_size": 64, "q_lora_rank": 12, "kv_lora_rank": 10, "qk_rope_head_dim": 2, "qk_nope_head_dim": 6,
    "v_head_dim": 8, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 8})";
  const LayerKind layer = kind(load(config), "decoder");
  EXPECT_EQ(op(layer, "attn.core").window, 8);
  EXPECT_EQ(op(layer, "index.core").window, 0);
  EXPECT_EQ(op(layer, "index.q").parameters + op(layer, "index.k").parameters + op(layer, "index.weights").parameters +
                op(layer, "index.k_norm").parameters,
            12 * 8 + 32 * 4 + 32 * 2 + 8);
  LayerKind scores = layer;
  scores.operators = {op(layer, "index.core")};
  EXPECT_DOUBLE_EQ(forward_flops(scores, {.main = 64}, true).count(), 2.0 * 2 * 4 * 64 * 32);
  scores.operators = {op(layer, "attn.core")};
  EXPECT_DOUBLE_EQ(forward_flops(scores, {.main = 64}, true).count(), 2.0 * 4 * (8 + 8) * 64 * (8 - 64.0 / 128));
}

// In Llama 4 three of four layers attend inside pieces; every second one is a mixture.
TEST(Llama4, PiecesAndMixturesByLayer) {
  const Model m = load(R"({"model_type": "llama4_text", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 16, "intermediate_size_mlp": 48, "num_local_experts": 4,
    "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 16, "vocab_size": 64})");
  EXPECT_THAT(order(m),
              ElementsAre("embedding", "decoder.chunked", "decoder.moe.chunked", "decoder.chunked", "decoder.moe.nope", "head"));
  EXPECT_EQ(op(kind(m, "decoder.chunked"), "attn.core").chunk, 16);
  EXPECT_EQ(op(kind(m, "decoder.chunked"), "mlp.down").in, 48);
  EXPECT_EQ(op(kind(m, "decoder.moe.nope"), "mlp.shared_down").in, 16);
}

}  // namespace
}  // namespace espalier::model::testing::bart_test
