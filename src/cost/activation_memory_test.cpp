// SPDX-License-Identifier: Apache-2.0
#include "cost/activation_memory.h"

#include <gtest/gtest.h>

#include "espalier/model.h"

namespace espalier::cost {
namespace {

// One GPT layer of Korthikanti et al. 2022 (GPT-3 175B): s = 2048, b = 1, h = 12288, a = 96.
constexpr std::int64_t s = 2048, b = 1, h = 12288, a = 96, t = 8;

LayerKind gpt_block() {
  DecoderShape shape;
  shape.layers = 2, shape.hidden = h, shape.ffn = 4 * h, shape.heads = a, shape.kv_heads = a, shape.vocabulary = 51200;
  shape.max_positions = s, shape.dropout = true;
  const auto model = make_decoder(shape, "gpt3");
  EXPECT_TRUE(model.ok());
  for (const LayerKind& kind : model->kinds)
    if (kind.role == LayerRole::block) return kind;
  return {};
}

LayerGeometry geometry(std::int32_t tp, bool sequence_parallel) {
  LayerGeometry g;
  g.tokens = b * s, g.keys = s, g.split = tp, g.sequence_split = sequence_parallel ? tp : 1;
  return g;
}

SavedBytes saved(std::int32_t tp, bool sp) {
  return saved_activations(gpt_block(), geometry(tp, sp), ActivationPolicy::megatron_2022_unfused);
}

// The six expressions of the paper (equations 1, 2, 4, table 2). 5as/h is an integer multiple here: 5·96·2048/12288 = 80.
TEST(SavedActivations, NoneIsThirtyFourPlusScores) { EXPECT_EQ(saved(1, false).none, s * b * h * (34 + 5 * a * s / h)); }
TEST(SavedActivations, TensorParallel) { EXPECT_EQ(saved(t, false).none, s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t); }
TEST(SavedActivations, TensorAndSequenceParallel) { EXPECT_EQ(saved(t, true).none, s * b * h / t * (34 + 5 * a * s / h)); }
TEST(SavedActivations, SelectiveWithTensorParallel) { EXPECT_EQ(saved(t, false).selective, s * b * h * (10 + 24 / t)); }
TEST(SavedActivations, SelectiveWithTensorAndSequenceParallel) { EXPECT_EQ(saved(t, true).selective, 34 * s * b * h / t); }
TEST(SavedActivations, FullKeepsTheInput) {
  EXPECT_EQ(saved(1, false).full, 2 * s * b * h);
  EXPECT_EQ(saved(t, true).full, 2 * s * b * h);
}

}  // namespace
}  // namespace espalier::cost
