// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMamba2 =
    R"({"model_type": "mamba2", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1, "num_heads": 4,
  "head_dim": 4, "n_groups": 2, "state_size": 3, "conv_kernel": 4, "chunk_size": 16, "time_step_limit": [0.0, Infinity]})";

// The inner width is 4·4 = 16, and the convolution has 16 + 2·2·3 = 28 features: in 8·(16 + 28 + 4) = 384; conv 28·(4
// + 1) = 140; dt, A, D 3·4 = 12; norm 16; out 16·8 = 128; the block's norm 8.
TEST(Mamba2, ParametersByHand) {
  const Model m = load(kMamba2);
  const LayerKind& block = kind(m, "mamba2");
  EXPECT_THAT(names(block),
              ElementsAre("mixer.norm", "ssm.in", "ssm.conv", "ssm.scan", "ssm.gate", "ssm.norm", "ssm.out", "mixer.residual"));
  EXPECT_EQ(parameter_count(block), 384 + 140 + 12 + 16 + 128 + 8);
}

// Per token, the products are in 2·8·48 = 768 and out 2·16·8 = 256. The conv has 2·28·4 = 224, the scan 4 heads ·
// (2·16·(3 + 4) + 4·3·4) = 4·272 = 1088, and with half of each triangle 4·(16·7 + 48) = 640.
TEST(Mamba2, FlopsByHand) {
  const LayerKind& block = kind(load(kMamba2), "mamba2");
  EXPECT_DOUBLE_EQ(forward_flops(block, {.main = 32}, false).count(), 32.0 * (768 + 256 + 224 + 1088));
  EXPECT_DOUBLE_EQ(forward_flops(block, {.main = 32}, true).count(), 32.0 * (768 + 256 + 224 + 640));
}

// One delta layer has heads 2 over 1 group of k = 3, v = 4, chunk 64: 2·(2·64·(9 + 8) + 6·12 + 64²/3).
TEST(GatedDelta, FlopsByHand) {
  Operator op;
  op.kind = OperatorKind::gated_delta;
  op.heads = 2;
  op.kv_heads = 1;
  op.qk_dim = 3;
  op.v_dim = 4;
  op.chunk = 64;
  LayerKind layer;
  layer.operators = {op};
  EXPECT_DOUBLE_EQ(forward_flops(layer, {.main = 1}, false).count(), 2 * (2 * 64 * 17.0 + 72 + 4096 / 3.0));
}

TEST(PythonNumbers, AreReadInConfigurations) {
  EXPECT_EQ(load(kMamba2).family, "mamba2");
  EXPECT_THAT(error_of(R"({"model_type": "mamba2", "hidden_size": NaN})"), HasSubstr("hidden_size"));
  EXPECT_THAT(error_of(R"({"model_type": "Infinity"})"), HasSubstr("\"Infinity\""));  // strings do not change
}

// Attention inside pieces of 4 of 16 tokens has 2·1·(2 + 2)·4 a token, half of it when causal.
TEST(AttentionInPieces, SeesItsPiece) {
  Operator op;
  op.kind = OperatorKind::attention;
  op.heads = op.kv_heads = 1;
  op.qk_dim = op.v_dim = 2;
  op.chunk = 4;
  op.causal = true;
  LayerKind layer;
  layer.operators = {op};
  EXPECT_DOUBLE_EQ(forward_flops(layer, {.main = 16}, false).count(), 16 * 2 * 4 * 4);
  EXPECT_DOUBLE_EQ(forward_flops(layer, {.main = 16}, true).count(), 16 * 2 * 4 * 2);
}

}  // namespace
}  // namespace espalier::model
