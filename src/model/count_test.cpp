// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "espalier/model.h"
#include "model/operators.h"
#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;

// This is a llama of 2 layers, hidden 8, 2 heads of 4 features, 1 key/value head, feed-forward 16, vocabulary 32,
// untied:
//   embedding            32·8                          = 256
//   block: norms         2·8                           =  16
//          qkv           8·(2 + 2·1)·4                 = 128
//          out           2·4·8                         =  64
//          gate_up, down 8·32 + 16·8                   = 384     sum 592
//   head:  norm 8, logits 8·32                         = 264
//   model                256 + 2·592 + 264             = 1704
const char* const kTiny = R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
  "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 32})";

TEST(Count, TinyLlamaByHand) {
  const Model m = load(kTiny);
  EXPECT_EQ(parameter_count(m), 1704);
  EXPECT_EQ(active_parameter_count(m), 1704);
  EXPECT_EQ(m.layers.size(), 4u);
  EXPECT_EQ(m.blocks(), 2);
  EXPECT_EQ(parameter_count(kind(m, "decoder")), 592);
}

// Forward FLOPs of one block for 10 tokens are GEMMs 2·10·(128 + 64 + 384) = 11520 and attention 2·2·(4 + 4)·10·10 =
// 3200, or half of it for the causal half only. The head has 2·10·8·32 = 5120.
TEST(Count, TinyLlamaFlopsByHand) {
  const Model m = load(kTiny);
  const Sequence s{.main = 10};
  EXPECT_EQ(forward_flops(kind(m, "decoder"), s, false).count(), 11520 + 3200);
  EXPECT_EQ(forward_flops(kind(m, "decoder"), s, true).count(), 11520 + 1600);
  EXPECT_EQ(forward_flops(kind(m, "embedding"), s, true).count(), 0);
  EXPECT_EQ(training_flops(m, s).count(), 3 * (2 * (11520 + 3200) + 5120));
  EXPECT_EQ(training_flops(m, s, true).count(), 3 * (2 * (11520 + 1600) + 5120));
}

// A frozen block that gradients pass through lacks the weight gradients: 3·(11520 + 3200) − 11520. A block that no
// gradient reaches has only the forward pass. An adapter of rank 2 on qkv (8 → 16) adds 3·2·10·2·(8 + 16) = 2880.
TEST(Count, FrozenWeightsHaveNoGradients) {
  Model m = load(kTiny);
  const Sequence s{.main = 10};
  LayerKind frozen = kind(m, "decoder");
  for (Operator& op : frozen.operators) op.frozen = op.parameters > 0;
  m.kinds.push_back(frozen);
  m.layers[1] = static_cast<std::int32_t>(m.kinds.size()) - 1;
  const double head = 3 * 5120, block = 3 * 14720;
  EXPECT_EQ(training_flops(m, s).count(), (block - 11520) + block + head);
  Operator& qkv = *std::find_if(m.kinds.back().operators.begin(), m.kinds.back().operators.end(),
                                [](const Operator& op) { return op.name == "attn.qkv"; });
  qkv.adapter_rank = 2;
  qkv.adapters = 1;
  qkv.adapter_out = 16;
  EXPECT_EQ(training_flops(m, s).count(), (block - 11520) + 2880 + block + head);
  m.kinds.back() = frozen;
  m.kinds.back().backward = false;
  EXPECT_EQ(training_flops(m, s).count(), 14720 + block + head);
}

TEST(Count, BoundaryIsHiddenTimesTokens) {
  const Model m = load(kTiny);
  const Sequence s{.main = 10};
  EXPECT_EQ(tokens_per_sample(kind(m, "decoder"), s), 10);
  EXPECT_EQ(boundary_elements(kind(m, "embedding"), s), 80);
  EXPECT_EQ(boundary_elements(kind(m, "decoder"), s), 80);
  EXPECT_EQ(boundary_elements(kind(m, "head"), s), 0);  // nothing follows it
}

// Narayanan et al. 2021, eq. 3 without recomputation, is 72·s·L·h²·(1 + s/(6h) + V/(12·L·h)) for a GPT with f = 4h.
TEST(Count, GptFlopsAreTheMegatronFormula) {
  const double h = 1024, layers = 24, s = 2048, v = 51200;
  const auto m = make_decoder({.layers = 24,
                               .hidden = 1024,
                               .ffn = 4096,
                               .heads = 16,
                               .kv_heads = 16,
                               .vocabulary = 51200,
                               .head_dim = 64,
                               .max_positions = 2048},
                              "gpt");
  ASSERT_TRUE(m.ok());
  EXPECT_DOUBLE_EQ(training_flops(*m, {.main = 2048}).count(),
                   72 * s * layers * h * h * (1 + s / (6 * h) + v / (12 * layers * h)));
}

// A window of 4 over 10 tokens gives 4 keys a query, or 4 − 4²/(2·10) = 3.2 keys for the causal part only.
TEST(Count, SlidingWindowLimitsKeys) {
  Operator attention = model::attention_core("a", {.hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .window = 4});
  LayerKind layer;
  layer.operators = {attention};
  EXPECT_DOUBLE_EQ(forward_flops(layer, {.main = 10}, false).count(), 2 * 2 * 8 * 10 * 4);
  EXPECT_DOUBLE_EQ(forward_flops(layer, {.main = 10}, true).count(), 2 * 2 * 8 * 10 * 3.2);
  layer.operators.front().window = 100;  // wider than the sequence: no window
  EXPECT_DOUBLE_EQ(forward_flops(layer, {.main = 10}, true).count(), 2 * 2 * 8 * 10 * 5);
}

TEST(Count, UnsplitPartIsBiasesOfRowLinearsNormsAndRouters) {
  using namespace model;
  EXPECT_EQ(linear("l", 3, 5, TpSplit::column, true).parameters, 20);
  EXPECT_EQ(linear("l", 3, 5, TpSplit::column, true).parameters_unsplit, 0);
  EXPECT_EQ(linear("l", 3, 5, TpSplit::row, true).parameters_unsplit, 5);
  EXPECT_EQ(linear("l", 3, 5, TpSplit::none, true).parameters_unsplit, 20);
  EXPECT_EQ(norm("n", 7, 2).parameters_unsplit, 14);
  Operators list;
  add_experts(list, {.hidden = 4, .ffn = 6, .experts = 8, .top_k = 2});
  EXPECT_EQ(list.front().kind, OperatorKind::router);
  EXPECT_EQ(list.front().parameters_unsplit, 32);
}

// A layer after a merge of four patches has 16 tokens for 64 patches of two images. Each attends to the 8 of its own
// image. In addition to its own 16·4 features, the embedded text of 10 tokens travels along, with 6 features each.
TEST(Streams, PatchesOfImagesAndWhatTravelsAlong) {
  LayerKind layer;
  layer.stream = TokenStream::encoder;
  layer.hidden = 4;
  layer.tokens_divisor = 4;
  layer.carried = TokenStream::main;
  layer.carried_hidden = 6;
  const Sequence s{.main = 10, .encoder = 64, .images = 2};
  EXPECT_EQ(tokens_per_sample(layer, s), 16);
  EXPECT_EQ(attended_tokens(layer, s), 8);
  EXPECT_EQ(boundary_elements(layer, s), 16 * 4 + 10 * 6);
}

}  // namespace
}  // namespace espalier::model
