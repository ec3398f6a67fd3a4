// SPDX-License-Identifier: Apache-2.0
#include "cost/partition_cost.h"

#include <gtest/gtest.h>

#include <memory>

#include "cost/collective.h"
#include "cost/test_problem.h"
#include "plan/engine.h"

namespace espalier::cost {
namespace {

using partition::parse_sequence;
using partition::PartitionSequence;
using partition::Phase;

/// Holds a linear of 64 → 256 on two samples of 32 tokens, on four round devices in one node (1 GB/s, no latency).
struct LayerPricing {
  Operator op = cost::test::linear("up", 64, 256, TpSplit::column);
  Model model = cost::test::model_of(cost::test::mlp());
  Cluster cluster = cost::test::round_cluster(4);
  CostContext context{model, cluster, cost::test::tokens(32), cost::test::plain_engine("generic")};
  PartitionedOperator node{partition::linear_shape("up", 2, 32, 64, 256), &op, OperatorPart::whole, {}, false};
  PartitionCost cost(const char* sequence) {
    PartitionCosts costs(context, 2);
    return costs.cost(node, *parse_sequence(sequence, "BMNK", true));
  }
};

// 2·64·64·256 = 2,097,152 FLOP take 2,097.152 ns on one device at 1 TFLOP/s; each of four takes a quarter of it,
// 524.288 ns, in seconds 5.24288e-7. K,K: the input is whole on each device. Its gradient, 64·64 elements of 2 bytes,
// is all-reduced: 2·¾·8,192 bytes at 1 GB/s = 12.288 µs. W has 64·64 elements per device. B and M reduce the gradient
// of W instead: 2·¾·16,384 elements of 4 bytes = 98.304 µs, once a step. P2: there are two steps of 32·32·128. I and
// W tiles of 32·32 and 32·128 elements go round: in F 2·(1,024 + 4,096) bytes in one of two steps at 1 GB/s,
// 10.24 µs. Nothing is reduced, and every tile is a quarter.
TEST(PartitionCost, OfALinearByHand) {
  LayerPricing scene;
  const PartitionCost columns = scene.cost("K,K");
  EXPECT_NEAR(columns.forward.compute, 524e-9, 1e-15);  // whole nanoseconds
  EXPECT_NEAR(columns.forward.collective, 0, 1e-15);
  EXPECT_NEAR(columns.backward_input.collective, 12.288e-6, 1e-12);
  EXPECT_EQ(columns.gradient_sync, 0);
  EXPECT_EQ(columns.parameters, 64 * 64);
  EXPECT_EQ(columns.saved, 2 * 64 * 64);
  const PartitionCost data = scene.cost("B,M");
  EXPECT_NEAR(data.gradient_sync, 98.304e-6, 1e-12);
  EXPECT_EQ(data.parameters, 64 * 256);
  EXPECT_EQ(data.saved, 2 * 16 * 64);
  const PartitionCost ring = scene.cost("P2");
  EXPECT_NEAR(ring.forward.compute, 2 * 262e-9, 1e-15);  // each step is rounded by itself
  EXPECT_NEAR(ring.forward.ring_exposed + ring.forward.ring_hidden, 10.24e-6, 1e-12);
  EXPECT_EQ(ring.forward.collective + ring.backward_input.collective + ring.gradient_sync, 0);
  EXPECT_EQ(ring.parameters, 64 * 64);
  EXPECT_EQ(ring.saved, 2 * 32 * 32);
}

// Tiles of 32 → 128 on 32 tokens have measured times, twice each. Backward, dO and W go round once, 2·(4,096 + 4,096)
// bytes at 1 GB/s. W of 8,192 bytes goes once more to where it began, unless it stays: then a copy of it is kept with
// the saved input.
TEST(PartitionCost, OfMeasuredTilesByHand) {
  LayerPricing scene;
  const auto measured = std::make_shared<profile::MeasuredOperators>();
  const profile::MeasuredShape tile{OperatorKind::linear, 32, 128};
  for (const std::int64_t tokens : {32, 64}) measured->add({{tile, tokens}, {1e-3, 2e-3, 3e-3}});
  EngineModel engine = *scene.context.engine;
  engine.measured = measured;
  for (const bool stays : {false, true}) {
    engine.communication.weights_stay = stays;
    const CostContext context(scene.model, scene.cluster, cost::test::tokens(32), engine);
    EXPECT_FALSE(not_measured(engine, scene.node, *parse_sequence("P2", "BMNK", true)).has_value());
    EXPECT_EQ(not_measured(engine, scene.node, *parse_sequence("K,K", "BMNK", true)),
              (profile::MeasuredShape{OperatorKind::linear, 64, 64}));
    const PartitionCost c = PartitionCosts(context, 2).cost(scene.node, *parse_sequence("P2", "BMNK", true));
    EXPECT_NEAR(c.forward.compute, 2e-3, 1e-12);
    EXPECT_NEAR(c.backward_input.compute, 4e-3, 1e-12);
    EXPECT_NEAR(c.backward_weight.compute, 6e-3, 1e-12);
    EXPECT_NEAR(c.backward_input.ring_exposed + c.backward_input.ring_hidden, stays ? 16.384e-6 : 24.576e-6, 1e-12);
    EXPECT_EQ(c.saved, 2 * (32 * 32 + (stays ? 32 * 128 : 0)));
  }
}

/// Returns nodes of two, four or eight devices with a slower network around them.
Cluster nodes_of(std::int64_t node, int bits) {
  Cluster cluster = cost::test::round_cluster(node);
  FabricLevel network = cluster.groups.front().intra.front();
  network.span = 1 << bits;
  network.bandwidth = BytesPerSecond(0.2e9);
  network.latency = Seconds(3e-6);
  cluster.groups.front().nodes = (1 << bits) / node;
  if (node < 1 << bits) cluster.inter = {network};
  return cluster;
}

// For every sequence, reductions and rings are those that the algebra derives from the slice indices.
TEST(PartitionCost, CommunicatesWhatTheAlgebraDerives) {
  for (const std::int64_t node : {2, 4, 8}) {
    LayerPricing scene;
    scene.cluster = nodes_of(node, 3);
    const CostContext context(scene.model, scene.cluster, cost::test::tokens(32), cost::test::plain_engine("generic"));
    PartitionCosts costs(context, 3);
    const partition::AttentionSizes heads{2, 32, 32, 8, 2, 16, 16};
    const Operator attention = cost::test::attention(8, 16, true);
    const Operator norm = [] {
      Operator op;
      op.kind = OperatorKind::norm;
      op.in = op.out = 64;
      op.parameters = 128;
      return op;
    }();
    const std::vector<PartitionedOperator> nodes = {
        scene.node,
        {partition::attention_scores_shape("scores", heads), &attention, OperatorPart::scores, {}, false},
        {partition::attention_values_shape("values", heads), &attention, OperatorPart::values, {}, false},
        {partition::fused_attention_shape("fused", heads), &attention, OperatorPart::whole, {}, false},
        {partition::norm_shape("norm", 2, 32, 64, 2), &norm, OperatorPart::whole, {}, false}};
    for (const PartitionedOperator& one : nodes)
      for (const PartitionSequence& sequence : partition::partition_space(one.shape, 3)) {
        const PartitionCost cost = costs.cost(one, sequence);
        const partition::Communication derived = partition::communication(one.shape, sequence);
        double collective = 0, sync = 0, ring = 0;
        for (const auto& reduction : derived.reductions) {
          const auto& tensor = one.shape.tensors[static_cast<std::size_t>(reduction.tensor.tensor)];
          const Group group = costs.fabric().group(reduction.indicator);
          const double elements = static_cast<double>(reduction.elements);
          if (tensor.role == partition::TensorRole::parameter) {
            sync += all_reduce_s(costs.fabric().levels(), group, 4.0 * elements);
          } else {
            collective += all_reduce_s(costs.fabric().levels(), group,
                                       (tensor.role == partition::TensorRole::statistic ? 4.0 : 2.0) * elements);
          }
        }
        for (const Phase phase : partition::kPhases)
          for (int step = 0; step < partition::steps(sequence); ++step) {
            Exchange moved;
            for (const auto& transfer : derived.transfers) {
              if (transfer.phase != phase || transfer.step != step) continue;
              const bool weight = transfer.tensor.gradient && transfer.tensor.tensor == 1;
              Exchange unit;
              for (int device = 0; device < sequence.devices(); ++device) {
                const int reach = partition::reach(device, transfer.sender[static_cast<std::size_t>(device)]);
                if (reach == 0) continue;
                const auto level = static_cast<std::size_t>(costs.fabric().level_of(reach));
                unit.mean[level] += 1.0 / sequence.devices();
                unit.largest[level] = unit.pair[level] = 1;
              }
              moved.add(unit, static_cast<double>(transfer.elements) * (weight ? 4.0 : 2.0));
            }
            ring += costs.fabric().seconds(moved);
          }
        const std::string text = one.shape.name + " " + partition::to_string(sequence);
        EXPECT_NEAR(cost.forward.collective + cost.backward_input.collective, collective, 1e-12) << text;
        EXPECT_NEAR(cost.gradient_sync, sync, 1e-12) << text;
        EXPECT_NEAR(cost.forward.ring_exposed + cost.forward.ring_hidden + cost.backward_input.ring_exposed +
                        cost.backward_input.ring_hidden + cost.backward_weight.ring_exposed + cost.backward_weight.ring_hidden,
                    ring, 1e-12)
            << text;
      }
  }
}

// With P nothing is held twice: the tiles of all devices add up to the tensors.
TEST(PartitionCost, PrimitiveReplicatesNothing) {
  LayerPricing scene;
  scene.cluster = nodes_of(4, 4);
  const CostContext context(scene.model, scene.cluster, cost::test::tokens(32), cost::test::plain_engine("generic"));
  PartitionCosts costs(context, 4);
  for (const char* text : {"P4", "P2,P2"}) {
    const PartitionCost cost = costs.cost(scene.node, *parse_sequence(text, "BMNK", true));
    EXPECT_EQ(16 * cost.parameters, 64 * 256) << text;
    EXPECT_EQ(16 * cost.saved, 2 * 64 * 64) << text;
    EXPECT_EQ(cost.forward.collective + cost.backward_input.collective + cost.gradient_sync, 0) << text;
  }
}

}  // namespace
}  // namespace espalier::cost
