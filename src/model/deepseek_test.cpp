// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model::deepseek_test {
namespace {

using namespace model::testing;
using ::testing::ElementsAre;

// The sizes are hidden 32, 4 heads, q rank 12, kv rank 10, rope 2, nope 6, value 5:
//   q_a 32·12, norm 12, q_b 12·4·8, kv_a 32·12, norm 10, kv_b 10·4·11, out 4·5·32 = 384 + 12 + 384 + 384 + 10 + 440 +
//   640 = 2254
std::string small(const std::string& more = "") {
  return R"({"model_type": "deepseek_v3", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "vocab_size": 64, "q_lora_rank": 12, "kv_lora_rank": 10, "qk_rope_head_dim": 2, "qk_nope_head_dim": 6, "v_head_dim": 5,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 16,
    "first_k_dense_replace": 1)" +
         more + "}";
}

TEST(DeepSeek, LatentAttention) {
  const Model m = load(small());
  const LayerKind& dense = kind(m, "decoder");
  EXPECT_THAT(names(dense), ElementsAre("attn.norm", "attn.q_a", "attn.q_a_norm", "attn.q_b", "attn.kv_a", "attn.kv_a_norm",
                                        "attn.kv_b", "attn.rotary", "attn.core", "attn.out", "attn.residual", "mlp.norm",
                                        "mlp.gate_up", "mlp.activation", "mlp.down", "mlp.residual"));
  EXPECT_EQ(parameter_count(dense), 2 * 32 + 2254 + 3 * 32 * 48);
  EXPECT_EQ(op(dense, "attn.q_a").split, TpSplit::none);
  EXPECT_EQ(op(dense, "attn.q_a").parameters_unsplit, 384);
  EXPECT_EQ(op(dense, "attn.kv_a").split, TpSplit::none);
  EXPECT_EQ(op(dense, "attn.q_b").split, TpSplit::column);
  EXPECT_EQ(op(dense, "attn.kv_b").out, 44);
  EXPECT_EQ(op(dense, "attn.core").qk_dim, 8);
  EXPECT_EQ(op(dense, "attn.core").v_dim, 5);
  EXPECT_EQ(op(dense, "attn.core").kv_heads, 4);
}

TEST(DeepSeek, DenseLayersFirstThenSharedAndRoutedExperts) {
  const Model m = load(small());
  EXPECT_THAT(order(m), ElementsAre("embedding", "decoder", "decoder.moe", "decoder.moe", "head"));
  const LayerKind& moe = kind(m, "decoder.moe");
  // The router has 32·8, the experts 8·3·32·16, the shared expert 3·32·16.
  EXPECT_EQ(parameter_count(moe), 2 * 32 + 2254 + 256 + 8 * 1536 + 1536);
  EXPECT_EQ(op(moe, "mlp.shared_gate_up").kind, OperatorKind::linear);
  EXPECT_EQ(op(moe, "mlp.shared_down").in, 16);
  EXPECT_EQ(active_parameter_count(m), parameter_count(m) - 2 * 6 * 1536);
}

TEST(DeepSeek, MoeLayerFrequencyAndPlainQueries) {
  EXPECT_THAT(order(load(small(R"(, "moe_layer_freq": 2)"))),
              ElementsAre("embedding", "decoder", "decoder", "decoder.moe", "head"));
  const Model m = load(R"({"model_type": "deepseek_v3", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
    "intermediate_size": 48, "vocab_size": 64, "q_lora_rank": null, "kv_lora_rank": 10, "qk_rope_head_dim": 2, "qk_nope_head_dim": 6})");
  EXPECT_EQ(op(kind(m, "decoder"), "attn.q").parameters, 32 * 32);
}

// One module has a MoE block, the projection 2h -> h and three norms. Table and matrix are those of embedding and
// head.
TEST(DeepSeek, MultiTokenPredictionIsPartOfTheHead) {
  const Model without = load(small()), with = load(small(R"(, "num_nextn_predict_layers": 1)"));
  EXPECT_EQ(without.mtp_parameters, 0);
  EXPECT_EQ(with.mtp_parameters, parameter_count(kind(with, "decoder.moe")) + 2 * 32 * 32 + 3 * 32);
  EXPECT_EQ(parameter_count(with), parameter_count(without) + with.mtp_parameters);
  EXPECT_EQ(order(with), order(without));
  const LayerKind& head = kind(with, "head");
  EXPECT_EQ(op(head, "mtp.embed.token").parameters, 0);
  EXPECT_EQ(op(head, "mtp.head.logits").parameters, 0);
  EXPECT_EQ(unplanned_parts(with), unplanned_parts(without));
}

// The work of a module is its block, the projection 2·2h·h and the head's logits 2·h·V again.
TEST(DeepSeek, MultiTokenPredictionTakesWork) {
  const Model without = load(small()), with = load(small(R"(, "num_nextn_predict_layers": 2)"));
  const Sequence sequence{.main = 128};
  const double more =
      forward_flops(kind(with, "head"), sequence, true).count() - forward_flops(kind(without, "head"), sequence, true).count();
  const double block = forward_flops(kind(with, "decoder.moe"), sequence, true).count();
  EXPECT_DOUBLE_EQ(more, 2 * (block + 128 * (2.0 * 64 * 32 + 2.0 * 32 * 64)));
}

}  // namespace
}  // namespace espalier::model::deepseek_test
