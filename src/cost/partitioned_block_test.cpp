// SPDX-License-Identifier: Apache-2.0
#include "cost/partitioned_block.h"

#include <gtest/gtest.h>

#include "cost/by_chunk.h"
#include "cost/layer_share.h"
#include "cost/price.h"
#include "cost/test_problem.h"
#include "plan/structure.h"

namespace espalier::cost::partitioned_block_test {
namespace {

using namespace test;

/// Returns a block with h = 64, ffn = 256, as cost::test::mlp(), and a residual addition.
LayerKind mlp_block() {
  Operator norm;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = norm.out = 64;
  norm.parameters = 64;
  Operator add;
  add.kind = OperatorKind::residual;
  add.name = "add";
  add.in = add.out = 64;
  return block({norm, linear("up", 64, 256, TpSplit::column), linear("down", 256, 64, TpSplit::row), add}, 64);
}

Strategy over(std::int32_t tp, std::string partition) {
  Strategy s;
  s.tp = tp;
  s.partition = BlockPartition(partition);
  return s;
}

struct Problem {
  Model model = model_of(mlp_block());
  Cluster cluster = round_cluster(4);
  CostContext context{model, cluster, tokens(1000), plain_engine("generic")};
  [[nodiscard]] BlockCost price(const std::string& text, std::int32_t devices) const {
    auto block = partitioned_block(context, model.kinds[0], 1, devices, BlockPartition(text));
    EXPECT_TRUE(block.ok()) << block.error().message();
    return *block;
  }
};

TEST(PartitionedBlock, SmallestExample) {
  const Problem p;
  // Two devices split the hidden features of the MLP: 1000 tokens, 1 ns for 1000 FLOP.
  const BlockCost c = p.price("norm R; up K; down N; add R", 2);
  EXPECT_EQ(c.parameters, 64 + 64 * 256);  // half of 2·64·256, and the norm whole
  EXPECT_DOUBLE_EQ(c.redistribution, 0);   // N of `down` needs K of `up`
  EXPECT_GE(c.forward.compute_ns, 2 * 2 * 1000 * 64 * 128 / 1000);
  // There is one all-reduce of 128 kB forward (down) and one backward (up): 2·(2−1)/2 of them at 1 byte/ns.
  EXPECT_NEAR(static_cast<double>(c.forward.exposed_ns), 128000, 1);
  EXPECT_NEAR(static_cast<double>(c.backward.exposed_ns), 128000, 1);
  EXPECT_EQ(c.boundary_bytes, 2 * 1000 * 64);
  EXPECT_DOUBLE_EQ(c.boundary_gather, 0);
  EXPECT_EQ(c.saved, 2 * 1000 * 64 + 4 * 1000 + 2 * 1000 * 64 + 2 * 1000 * 128);  // norm, up, down
}

TEST(PartitionedBlock, PrimitiveReplicatesNothingAndSendsOnRings) {
  const Problem p;
  const BlockCost c = p.price("norm R,R; up P2; down P2; add R,R", 4);
  EXPECT_EQ(c.parameters, 64 + 2 * 64 * 256 / 4);
  EXPECT_DOUBLE_EQ(c.collective, 0);
  EXPECT_GT(c.ring_hidden + c.ring_exposed, 0);
  EXPECT_GT(c.redistribution, 0);                      // skewed tiles come from and go to whole ones
  EXPECT_GT(c.forward_transient, 2 * 1000 * 256 / 4);  // its output, and second buffers of the tiles in flight
}

TEST(PartitionedBlock, SplitsOfTokensReduceGradientsOnceAStep) {
  const Problem p;
  const BlockCost c = p.price("norm M; up M; down M; add M", 2);
  EXPECT_EQ(c.parameters, 64 + 2 * 64 * 256);  // every device holds all weights
  EXPECT_GT(c.gradient_sync, 0);
  EXPECT_DOUBLE_EQ(c.collective + c.redistribution, 0);
  EXPECT_EQ(c.boundary_bytes, 1000 * 64);
  EXPECT_GT(c.boundary_gather, 0);
  const LayerCost plain = layer_cost_of(c, over(2, ""));
  EXPECT_EQ(plain.gradient_sync_ns, std::llround(c.gradient_sync * 1e9));
  EXPECT_EQ(plain.saved.full, c.boundary_bytes);
  Strategy scattered = over(2, "");
  scattered.zero = ZeroStage::gradients;  // gradients leave with every micro-batch
  EXPECT_EQ(layer_cost_of(c, scattered).gradient_sync_ns, 0);
  EXPECT_EQ(layer_cost_of(c, scattered).backward.exposed_ns, plain.backward.exposed_ns + plain.gradient_sync_ns);
}

TEST(PartitionedBlock, WhatDoesNotFitIsNamed) {
  const Problem p;
  const auto refused = [&](const std::string& text, std::int32_t devices) {
    return !partitioned_block(p.context, p.model.kinds[0], 1, devices, BlockPartition(text)).ok();
  };
  EXPECT_TRUE(refused("norm R; up K; down N", 2));             // an operator is missing
  EXPECT_TRUE(refused("norm R; up K; add R; down N", 2));      // order
  EXPECT_TRUE(refused("norm R; up K; down N; add R", 4));      // bits
  EXPECT_TRUE(refused("norm R; up H; down N; add R", 2));      // a linear has no heads
  EXPECT_TRUE(refused("norm R; up B; down B; add B", 2));      // one sample
  EXPECT_TRUE(refused("norm P2; up P2; down P2; add P2", 4));  // norms are not products
  EXPECT_FALSE(refused("norm R; up K; down N; add R", 2));
}

TEST(PartitionedBlock, LayerCostsPutItInPlaceOfTensorParallelism) {
  const Problem p;
  std::vector<LayerCost> plain, with;
  layer_costs(p.context, over(2, ""), 1, 1, plain);
  layer_costs(p.context, over(2, "norm R; up K; down N; add R"), 1, 1, with);
  EXPECT_EQ(with[0].dense_parameters, plain[0].dense_parameters);
  EXPECT_EQ(with[0].forward, plain[0].forward);  // Megatron's partition is Megatron
  EXPECT_EQ(with[0].backward.compute_ns, plain[0].backward.compute_ns);
  EXPECT_EQ(with[0].saved.none, plain[0].saved.none);
  EXPECT_EQ(with[0].saved.full, plain[0].saved.full);
  EXPECT_EQ(with[0].boundary_bytes, plain[0].boundary_bytes);
}

/// Prices embedding, a block and head: the activation between them is gathered for those without a partition.
TEST(PartitionedBlock, EmbeddingAndHeadHoldTheWholeActivation) {
  DecoderShape shape;
  shape.layers = 2;
  shape.hidden = 64;
  shape.ffn = 256;
  shape.heads = shape.kv_heads = 4;
  shape.vocabulary = 1000;
  shape.max_positions = 128;
  const Model model = make_decoder(shape, "test").value();
  const Cluster cluster = round_cluster(2);
  const CostContext context(model, cluster, tokens(128, 4), plain_engine("generic"));
  const std::string whole =
      "attn.norm R; attn.qkv K; attn.core H; attn.out N; attn.residual R; mlp.norm R; mlp.up K; mlp.activation N; mlp.down N; "
      "mlp.residual R";
  std::string cut = whole;
  for (std::size_t at = cut.find(" R"); at != std::string::npos; at = cut.find(" R")) cut[at + 1] = 'M';
  ASSERT_TRUE(partition_fits(context, over(2, whole), 1).ok()) << partition_fits(context, over(2, whole), 1).error().message();
  std::vector<LayerCost> plain, replicated, parts;
  layer_costs(context, over(2, ""), 1, 1, plain);
  layer_costs(context, over(2, whole), 1, 1, replicated);
  layer_costs(context, over(2, cut), 1, 1, parts);
  EXPECT_EQ(replicated.front().backward, plain.front().backward);
  EXPECT_EQ(replicated.back().forward, plain.back().forward);
  const std::int64_t gather = 128 * 64;                     // bytes of the other half, 1 byte/ns
  EXPECT_EQ(parts.front().forward, plain.front().forward);  // cutting out a tile costs nothing
  EXPECT_NEAR(static_cast<double>(parts.front().backward.exposed_ns - plain.front().backward.exposed_ns), gather, 1);
  EXPECT_NEAR(static_cast<double>(parts.back().forward.exposed_ns - plain.back().forward.exposed_ns), gather, 1);
  EXPECT_EQ(parts.back().backward, plain.back().backward);
}

/// Reductions inside the group come before the update, even where nothing else is reduced.
TEST(PartitionedBlock, GradientSyncIsPartOfTheStepEnd) {
  const Problem p;
  const auto optimizer_ns = [&](const std::string& text) {
    const Strategy s = over(2, text);
    std::vector<LayerCost> layers;
    layer_costs(p.context, s, 1, 1, layers);
    const SplitTable split(p.model, {0});
    const Schedule schedule{ScheduleKind::one_f_one_b, 1, 1, 1, 1};
    ProgramStructure structure;
    structure_for(p.model, s, schedule, split, structure);
    Costs costs;
    PriceScratch scratch;
    price(p.context, structure, s, split, layers, scratch, costs);
    return std::pair(cost::test::rows_of(costs, structure).stages[0].optimizer_ns, layers[0].gradient_sync_ns);
  };
  const auto [with, sync] = optimizer_ns("norm M; up M; down M; add M");
  const auto [without, none] = optimizer_ns("norm R; up M; down M; add R");
  EXPECT_GT(sync, none);
  EXPECT_EQ(with - without, sync - none);  // both update as many parameters
}

TEST(PartitionedBlock, StepsAddUpToThePhases) {
  const Problem p;
  const auto block = priced_block(p.context, p.model.kinds[0], 1, 4, BlockPartition("norm M,N; up P2; down P2; add M,N"));
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(phase_time(block->steps.forward), block->cost.forward);
  EXPECT_EQ(phase_time(block->steps.backward), block->cost.backward);
  EXPECT_EQ(phase_time(block->steps.backward_input), block->cost.backward_input);
  EXPECT_EQ(phase_time(block->steps.backward_weight), block->cost.backward_weight);
}

}  // namespace
}  // namespace espalier::cost::partitioned_block_test
