// SPDX-License-Identifier: Apache-2.0
#include "partition/operator_splits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partition/communication.h"

namespace espalier::partition {
namespace {

std::vector<std::string> texts(const std::vector<PartitionSequence>& all) {
  std::vector<std::string> text;
  for (const PartitionSequence& sequence : all) text.push_back(to_string(sequence));
  return text;
}

// A linear of 1 sample, 4 positions, 6 → 8 features on 4 devices: B cannot be split, N only once, and P2 needs M, N
// and K halved.
TEST(PartitionSpace, IsTheSmallestExampleByHand) {
  const OperatorShape op = linear_shape("linear", 1, 4, 6, 8);
  EXPECT_EQ(texts(partition_space(op, 2)),
            (std::vector<std::string>{"M,M", "M,N", "M,K", "N,M", "N,K", "K,M", "K,N", "K,K", "P2"}));
  EXPECT_TRUE(is_legal(op, {primitive(1), split('M')}));
  EXPECT_FALSE(is_legal(op, {primitive(1), split('N')}));
  EXPECT_FALSE(is_legal(op, {primitive(2)}));
  EXPECT_EQ(elements(op.tensors[1]), 48);
  // 4·6·8 points are spread over 4 devices and 2 steps.
  EXPECT_EQ(points_per_step(op, op.products[0], {primitive(1)}), 24);
}

TEST(PartitionSpace, EachKindSplitsWhatItMay) {
  const AttentionSizes sizes{8, 16, 16, 8, 8, 64};
  EXPECT_EQ(splittable_dimensions(linear_shape("", 8, 8, 8, 8)), "BMNK");
  EXPECT_EQ(splittable_dimensions(attention_scores_shape("", sizes)), "BMHL");
  EXPECT_EQ(splittable_dimensions(attention_values_shape("", sizes)), "BMHL");
  EXPECT_EQ(splittable_dimensions(softmax_shape("", sizes)), "BMH");
  EXPECT_EQ(splittable_dimensions(fused_attention_shape("", sizes)), "BMH");
  EXPECT_EQ(splittable_dimensions(norm_shape("", 8, 8, 8, 2)), "BMN");
  EXPECT_EQ(splittable_dimensions(elementwise_shape("", 8, 8, 8)), "BMN");
  EXPECT_EQ(splittable_dimensions(add_shape("", 8, 8, 8)), "BMN");
  EXPECT_EQ(splittable_dimensions(embedding_shape("", 8, 8, 8, 8)), "BMVN");
  EXPECT_EQ(splittable_dimensions(cross_entropy_shape("", 8, 8, 8)), "BMK");
  for (const OperatorShape& op :
       {attention_scores_shape("", sizes), norm_shape("", 8, 8, 8, 2), embedding_shape("", 8, 8, 8, 8)}) {
    EXPECT_FALSE(op.primitive);
    EXPECT_FALSE(is_legal(op, {primitive(1)}));
  }
  EXPECT_FALSE(is_legal(softmax_shape("", sizes), {split('L')}));
}

// 24 query heads on 6 heads of K and V: two slices hold 12 on 3; four would cut a head of K and V in half. On 8 heads
// of K and V (a power of two), sixteen slices of 32 query heads share them in pairs.
TEST(PartitionSpace, GroupedHeadsAreNeverCut) {
  const OperatorShape six = fused_attention_shape("", {1, 8, 8, 24, 6, 64});
  EXPECT_TRUE(is_legal(six, {split('H')}));
  EXPECT_FALSE(is_legal(six, {split('H'), split('H')}));
  const OperatorShape eight = fused_attention_shape("", {1, 8, 8, 32, 8, 64});
  const PartitionSequence sixteen = {split('H'), split('H'), split('H'), split('H')};
  EXPECT_TRUE(is_legal(eight, sixteen));
  EXPECT_EQ(tile_elements(eight, sixteen, 0), 8 * 2 * 64);
  EXPECT_EQ(tile_elements(eight, sixteen, 1), 8 * 1 * 64);
  EXPECT_EQ(forward_needed(eight, sixteen, 1).tile(4), forward_needed(eight, sixteen, 1).tile(5));
}

// The letters that a product sums are those of its operands that its output lacks; shapes and axes agree.
TEST(OperatorShape, DescribesItself) {
  const AttentionSizes gqa{8, 16, 32, 8, 4, 64};
  const std::vector<OperatorShape> all = {
      linear_shape("linear", 2, 4, 8, 16),   linear_shape("gate_up", 2, 4, 8, 16, 2), attention_scores_shape("qk", gqa),
      softmax_shape("softmax", gqa),         attention_values_shape("av", gqa),       fused_attention_shape("core", gqa),
      norm_shape("norm", 2, 4, 8, 2),        norm_shape("rms", 2, 4, 8, 1),           head_norm_shape("q_norm", 2, 4, 8, 4),
      elementwise_shape("gelu", 2, 4, 8),    elementwise_shape("swiglu", 2, 4, 8, 2), add_shape("add", 2, 4, 8),
      embedding_shape("embed", 2, 4, 32, 8), cross_entropy_shape("loss", 2, 4, 32)};
  for (const OperatorShape& op : all) {
    const auto letters = [&](const TensorUse& use) {
      std::string text;
      for (const Axis& axis : op.tensors.at(static_cast<std::size_t>(use.tensor)).axes) text += axis.letter;
      return text;
    };
    for (const Tensor& tensor : op.tensors) {
      for (const Axis& axis : tensor.axes) {
        const auto dimension = std::find_if(op.dimensions.begin(), op.dimensions.end(),
                                            [&](const OperatorDimension& d) { return d.letter == axis.letter; });
        ASSERT_NE(dimension, op.dimensions.end()) << op.name;
        EXPECT_TRUE(dimension->size % axis.size == 0);
      }
    }
    for (const Product& product : op.products) {
      std::string read, summed;
      for (const TensorUse& use : product.operands) read += letters(use);
      for (const OperatorDimension& d : op.dimensions) {
        const bool in = read.find(d.letter) != std::string::npos;
        if (in && letters(product.output).find(d.letter) == std::string::npos) summed += d.letter;
      }
      EXPECT_EQ(summed, product.summed) << op.name << " " << to_string(product.phase);
    }
  }
}

TEST(OperatorShape, OfAModelsOperators) {
  DecoderShape shape;
  shape.layers = 2;
  shape.hidden = 64;
  shape.heads = 8;
  shape.kv_heads = 4;
  shape.ffn = 128;
  shape.gated = true;
  shape.vocabulary = 512;
  shape.rotary = true;
  shape.learned_positions = false;
  shape.biases = false;
  shape.rms_norm = true;
  shape.qk_norm = true;
  const auto model = make_decoder(shape, "toy");
  ASSERT_TRUE(model.ok());
  int known = 0;
  for (const LayerKind& kind : model->kinds) {
    for (const Operator& op : kind.operators) {
      const auto described = shape_of(op, 8, 32);
      ASSERT_TRUE(described.ok()) << op.name;
      EXPECT_EQ(described->name, op.name);
      std::int64_t parameters = 0;
      for (const Tensor& tensor : described->tensors) {
        if (tensor.role == TensorRole::parameter) parameters += elements(tensor);
      }
      if (op.parameters > 0) {
        EXPECT_EQ(parameters, op.parameters) << op.name;
      }
      EXPECT_FALSE(partition_space(*described, 3).empty()) << op.name;
      ++known;
    }
  }
  EXPECT_GT(known, 10);
  Operator router;
  router.kind = OperatorKind::router;
  router.name = "mlp.router";
  EXPECT_EQ(shape_of(router, 1, 1).error().where, "operator mlp.router");
}

}  // namespace
}  // namespace espalier::partition
