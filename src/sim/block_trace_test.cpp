// SPDX-License-Identifier: Apache-2.0
#include "sim/block_program.h"

#include <gtest/gtest.h>

#include <random>

#include "partition/operators.h"
#include "plan/operator_partition.h"

namespace espalier::sim {
namespace {

Cluster v100s(int nodes) {
  auto cluster =
      load_cluster("{nodes: " + std::to_string(nodes) +
                       ", devices_per_node: 4, device: v100-sxm-32gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}",
                   "cluster");
  EXPECT_TRUE(cluster.ok());
  return *cluster;
}

Model decoder(bool gated) {
  DecoderShape shape;
  shape.layers = 2, shape.hidden = 4096, shape.ffn = 16384, shape.heads = 32, shape.kv_heads = gated ? 8 : 32;
  shape.vocabulary = 50272, shape.gated = gated, shape.max_positions = 2048;
  return make_decoder(shape, "test").value();
}

Training training() {
  Training t;
  t.sequence.main = 2048, t.global_batch = 8, t.precision = Precision::fp16;
  return t;
}

const LayerKind& block_of(const Model& model) { return model.layer(1); }

const std::string kPrimitive =
    "attn.norm R,M,N; attn.qkv K,P2; attn.core H,H,H; attn.out N,P2; attn.residual R,M,N; mlp.norm R,M,N; mlp.up K,P2; "
    "mlp.activation N,M,N; mlp.down N,P2; mlp.residual R,M,N";

TEST(BlockProgram, ShiftsRunBesideTheStepsThatIssueThem) {
  const Model model = decoder(false);
  const Cluster cluster = v100s(2);
  const cost::CostContext context(model, cluster, training(), *find_engine("generic"));
  const auto timeline = simulate_block(context, block_of(model), 8, 8, kPrimitive, BlockPhase::forward);
  ASSERT_TRUE(timeline.ok()) << timeline.error().message();
  const BlockSpan* shift = nullptr;
  const BlockSpan* step = nullptr;
  const BlockSpan* next = nullptr;
  for (const BlockSpan& span : timeline->spans) {
    if (span.name == "mlp.up forward 0 shift") shift = &span;
    if (span.name == "mlp.up forward 0") step = &span;
    if (span.name == "mlp.up forward 1") next = &span;
  }
  ASSERT_TRUE(shift != nullptr && step != nullptr && next != nullptr);
  EXPECT_EQ(shift->start_ns, step->start_ns);
  EXPECT_EQ(next->start_ns, std::max(shift->end_ns, step->end_ns));
  EXPECT_LT(shift->end_ns, step->end_ns);  // inside the node the ring is hidden
}

/// Any legal sequence for every operator.
std::string random_partition(const cost::BlockGraph& graph, int bits, std::mt19937& random) {
  std::vector<OperatorPartition> all;
  for (int n = 1; n < graph.nodes(); ++n) {
    const auto& shape = graph.operators[static_cast<std::size_t>(n)].shape;
    const auto space = partition::partition_space(shape, bits);
    EXPECT_FALSE(space.empty());
    std::vector<partition::PartitionSequence> primitive;
    for (const auto& s : space)
      if (std::any_of(s.begin(), s.end(), [](const auto& part) { return part.primitive(); })) primitive.push_back(s);
    const auto& from = primitive.empty() || random() % 2 == 0 ? space : primitive;
    all.push_back({shape.name, from[random() % from.size()]});
  }
  return to_string(all);
}

TEST(BlockProgram, SimulatedPhasesAreThoseOfTheCostModelToTheNanosecond) {
  std::mt19937 random(7);
  int rings = 0;
  for (const char* engine : {"generic", "megatron-lm-2021"}) {
    for (const bool gated : {false, true}) {
      const Model model = decoder(gated);
      for (const int bits : {1, 2, 3, 4}) {
        const Cluster cluster = v100s(bits > 2 ? 1 << (bits - 2) : 1);
        const cost::CostContext context(model, cluster, training(), *find_engine(engine));
        const auto graph = cost::block_graph(context, block_of(model), 8);
        ASSERT_TRUE(graph.ok()) << graph.error().message();
        for (int round = 0; round < 8; ++round) {
          const std::string text = random_partition(*graph, bits, random);
          const auto block = cost::partitioned_block(context, block_of(model), 8, 1 << bits, text);
          ASSERT_TRUE(block.ok()) << block.error().message();
          rings += block->ring_hidden > 0 ? 1 : 0;
          const std::pair<BlockPhase, cost::PhaseTime> phases[] = {{BlockPhase::forward, block->forward},
                                                                   {BlockPhase::backward, block->backward},
                                                                   {BlockPhase::backward_input, block->backward_input},
                                                                   {BlockPhase::backward_weight, block->backward_weight}};
          for (const auto& [phase, analytic] : phases) {
            const auto simulated = simulate_block(context, block_of(model), 8, 1 << bits, text, phase);
            ASSERT_TRUE(simulated.ok()) << simulated.error().message();
            EXPECT_EQ(simulated->duration_ns, analytic.duration_ns()) << text << " phase " << static_cast<int>(phase);
          }
        }
      }
    }
  }
  EXPECT_GT(rings, 20);
}

TEST(BlockProgram, TraceNamesEveryStep) {
  const Model model = decoder(false);
  const Cluster cluster = v100s(2);
  const cost::CostContext context(model, cluster, training(), *find_engine("generic"));
  const auto trace = block_trace(context, block_of(model), 8, 8, kPrimitive);
  ASSERT_TRUE(trace.ok());
  EXPECT_NE(trace->find("mlp.down gradient 1 shift"), std::string::npos);
  EXPECT_FALSE(block_trace(context, block_of(model), 8, 8, "attn.norm R").ok());
}

}  // namespace
}  // namespace espalier::sim
