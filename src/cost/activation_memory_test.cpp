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
  shape.layers = 2;
  shape.hidden = h;
  shape.ffn = 4 * h;
  shape.heads = a;
  shape.kv_heads = a;
  shape.vocabulary = 51200;
  shape.max_positions = s;
  shape.dropout = true;
  const auto model = make_decoder(shape, "gpt3");
  EXPECT_TRUE(model.ok());
  for (const LayerKind& kind : model->kinds)
    if (kind.role == LayerRole::block) return kind;
  return {};
}

LayerGeometry geometry(std::int32_t tp, bool sequence_parallel) {
  LayerGeometry g;
  g.tokens = b * s;
  g.keys = s;
  g.split = tp;
  g.sequence_split = sequence_parallel ? tp : 1;
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

// The head of 1,000 words on 8 ranks, 10 tokens each: an fp32 softmax is kept; logits before and their gradient after it.
TEST(SavedActivations, TheLossKeepsWhatTheEngineSays) {
  LayerKind head;
  head.role = LayerRole::head;
  Operator logits, loss;
  logits.kind = OperatorKind::linear;
  logits.in = 64;
  logits.out = 1000;
  logits.split = TpSplit::vocab;
  loss.kind = OperatorKind::cross_entropy;
  loss.in = 1000;
  loss.out = 1;
  loss.split = TpSplit::vocab;
  head.operators = {logits, loss};
  LayerGeometry g;
  g.tokens = 10;
  g.split = g.weight_split = 8;
  EXPECT_EQ(saved_activations(head, g, ActivationPolicy::fused_attention).none, 2 * 10 * 64 + 4 * 10 * 1000 / 8);
  TransientBytes working = transient_activations(head, g, ActivationPolicy::fused_attention);
  EXPECT_EQ(working.forward, 2 * 10 * 1000 / 8);
  EXPECT_EQ(working.backward, 2 * 10 * 1000 / 8);
  g.loss = {4, 10, 2};  // nanotron: bf16 logits, fp32 copy, shifted copy beside the exponential
  working = transient_activations(head, g, ActivationPolicy::fused_attention);
  EXPECT_EQ(working.forward, 10 * 10 * 1000 / 8);
}

// 8-bit products keep their inputs in a byte. Of a GPT layer without dropout: the inputs of QKV and of the first linear (after a norm) and of the
// second (4h) lose one byte an element; the projection, whose input attention keeps in 16 bits, keeps a cast of its own.
TEST(SavedActivations, EightBitProductsKeepBytes) {
  LayerGeometry g = geometry(1, false);
  const std::int64_t wide = saved_activations(gpt_block(), g, ActivationPolicy::fused_attention).none;
  g.operand_bytes = 1;
  const std::int64_t eight = saved_activations(gpt_block(), g, ActivationPolicy::fused_attention).none;
  EXPECT_EQ(wide - eight, s * b * (h + h + 4 * h - h));
}

// A lookup works on its output, not on one value per row of the table.
TEST(SavedActivations, AnEmbeddingReadsIndices) {
  LayerKind kind;
  Operator table;
  table.kind = OperatorKind::embedding;
  table.in = 100000;
  table.out = 64;
  table.split = TpSplit::vocab;
  kind.operators = {table};
  LayerGeometry g;
  g.tokens = 10;
  EXPECT_EQ(transient_activations(kind, g, ActivationPolicy::fused_attention).backward, 2 * 10 * 64);
}

// One token, 64 wide, a gated MLP of 100 under 4-way tensor and sequence parallelism: eager kernels keep the activated gate too,
// and a column linear may keep its gathered input.
TEST(SavedActivations, EagerGateAndGatheredInput) {
  LayerKind kind;
  kind.hidden = 64;
  Operator up, gate;
  up.kind = OperatorKind::linear;
  up.in = 64;
  up.out = 200;
  up.split = TpSplit::column;
  gate.kind = OperatorKind::activation;
  gate.in = 200;
  gate.out = 100;
  gate.split = TpSplit::heads;
  kind.operators = {up, gate};
  LayerGeometry g;
  g.tokens = 4;
  g.split = g.sequence_split = g.weight_split = 4;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 2 * 64 + 2 * 200);
  g.eager_gate = true;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 2 * 64 + 2 * 300);
  g.keeps_gathered = true;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 4 * 2 * 64 + 2 * 300);
  // backward: the input gathered again and its gradient, both whole, and the gradient of the output
  EXPECT_EQ(transient_activations(kind, g, ActivationPolicy::fused_attention).backward, 2 * (4 * 2 * 64) + 2 * 200);
}

// Two frozen linears of 8 features that read the same tensor, each with an adapter of rank 3, 10 tokens: the input once, 2·10·8, and 2·10·3 between
// the matrices of either adapter.
TEST(SavedActivations, EveryAdapterKeepsWhatIsBetweenItsMatrices) {
  LayerKind kind;
  kind.hidden = 8;
  for (const char* name : {"q", "k"}) {
    Operator op;
    op.kind = OperatorKind::linear;
    op.name = name;
    op.in = op.out = 8;
    op.split = TpSplit::column;
    op.parameters = 64;
    op.frozen = true;
    op.adapters = 1;
    op.adapter_rank = 3;
    op.adapter_out = 8;
    kind.operators.push_back(op);
  }
  LayerGeometry g;
  g.tokens = 10;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 160 + 2 * 60);
}

}  // namespace
}  // namespace espalier::cost
