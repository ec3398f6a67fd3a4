// SPDX-License-Identifier: Apache-2.0
#include "cost/block_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cost/layer_steps.h"
#include "cost/test_opt_block.h"
#include "cost/test_problem.h"
#include "partition/operator_splits.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"

namespace espalier::cost {
namespace {

using cost::test::block_of;
using cost::test::decoder;
using cost::test::training;
using cost::test::v100s;

const Step* find(const PhaseSteps& phase, const std::string& name, CollectiveKind kind) {
  for (const Step& step : phase.steps)
    if (step.moves() && step.name == name && step.traffic.kind == kind) return &step;
  return nullptr;
}

// Two round devices (test_problem.h) split the 256 hidden features. Only sums of 1000 tokens · 64 features · 2 bytes
// move, after `down` forward and after `up` backward.
TEST(BlockSteps, SmallestExample) {
  using namespace test;
  Operator norm, add;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = norm.out = 64;
  norm.parameters = 64;
  add.kind = OperatorKind::residual;
  add.name = "add";
  add.in = add.out = 64;
  const LayerKind kind = block({norm, linear("up", 64, 256, TpSplit::column), linear("down", 256, 64, TpSplit::row), add}, 64);
  const Model model = model_of(kind);
  const Cluster cluster = round_cluster(2);
  const CostContext context(model, cluster, tokens(1000), plain_engine("generic"));
  const auto priced = priced_block(context, model.kinds[0], 1, 2, BlockPartition("norm R; up K; down N; add R"));
  ASSERT_TRUE(priced.ok()) << priced.error().message();
  const Step* reduce = find(priced->steps.forward, "down", CollectiveKind::all_reduce);
  ASSERT_NE(reduce, nullptr);
  EXPECT_EQ(reduce->traffic, (Traffic{CollectiveKind::all_reduce, GroupKind::operators, 128000, 1}));
  EXPECT_EQ(reduce->op, 2);
  EXPECT_EQ(bytes_of(priced->steps.forward), 128000);
  EXPECT_NE(find(priced->steps.backward, "up", CollectiveKind::all_reduce), nullptr);
  EXPECT_EQ(bytes_of(priced->steps.backward), 128000);
  EXPECT_EQ(bytes_of(priced->steps.backward_weight), 0);
  EXPECT_EQ(priced->steps.forward.steps.front().name, "norm");
  EXPECT_EQ(priced->steps.backward.steps.front().name, "add");
}

// P on four V100s in a node of two: `mlp.up` has 8 · 2048 tokens, 4096 in and 16384 out over 2 · 2 tiles. In the
// first of two steps each device passes on a tile of the input, 8 · 2048 / 2 · 4096 / 2 elements. It also passes on
// one of the weights, 4096 / 2 · 16384 / 2, at 2 bytes each.
TEST(BlockSteps, RingsRunBesideTheirStep) {
  const Model model = decoder(false);
  const Cluster cluster = v100s(1);
  const CostContext context(model, cluster, training(), *find_engine("generic"));
  const std::string partition =
      "attn.norm M,N; attn.qkv P2; attn.core H,H; attn.out P2; attn.residual M,N; mlp.norm M,N; mlp.up P2; mlp.activation M,N; "
      "mlp.down P2; mlp.residual M,N";
  const auto priced = priced_block(context, block_of(model), 8, 4, BlockPartition(partition));
  ASSERT_TRUE(priced.ok()) << priced.error().message();
  const PhaseSteps& forward = priced->steps.forward;
  const Step* ring = find(forward, "mlp.up", CollectiveKind::ring_shift);
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->traffic.bytes, 2.0 * (8 * 2048 / 2 * 4096 / 2 + 4096 / 2 * 16384 / 2));
  const auto index = static_cast<std::size_t>(ring - forward.steps.data());
  EXPECT_EQ(ring->first, static_cast<std::int32_t>(index));  // the compute of the same step
  const auto spans = step_spans(forward);
  EXPECT_EQ(spans[index].traffic_start_ns, spans[index].compute_start_ns);
  EXPECT_EQ(spans[index + 1].compute_start_ns, std::max(spans[index].traffic_end_ns, spans[index].compute_end_ns));
  EXPECT_NE(find(forward, "attn.qkv", CollectiveKind::resharding), nullptr);
}

/// Returns any legal sequence for every operator.
std::string random_partition(const BlockGraph& graph, int bits, std::mt19937& random) {
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

/// Expects that the layout in time of a phase ends when the phase does.
void expect_phase(const PhaseSteps& phase, const PhaseTime& time, const std::string& text) {
  EXPECT_EQ(phase_time(phase), time) << text;
  std::int64_t end = 0;
  for (const StepSpan& span : step_spans(phase)) end = std::max({end, span.compute_end_ns, span.traffic_end_ns});
  EXPECT_EQ(end + time.other_ns, time.duration_ns()) << text;
}

TEST(BlockSteps, AddUpToThePhasesToTheNanosecond) {
  std::mt19937 random(7);
  int rings = 0, moves = 0;
  for (const char* engine : {"generic", "megatron-lm-2021"}) {
    for (const bool gated : {false, true}) {
      const Model model = decoder(gated);
      for (const int bits : {1, 2, 3, 4}) {
        const Cluster cluster = v100s(bits > 2 ? 1 << (bits - 2) : 1);
        const CostContext context(model, cluster, training(), *find_engine(engine));
        const auto graph = block_graph(context.workload.training.sequence, *context.engine, block_of(model), 8);
        ASSERT_TRUE(graph.ok()) << graph.error().message();
        for (int round = 0; round < 8; ++round) {
          const std::string text = random_partition(*graph, bits, random);
          const auto priced = priced_block(context, block_of(model), 8, 1 << bits, BlockPartition(text));
          ASSERT_TRUE(priced.ok()) << priced.error().message();
          rings += priced->cost.ring_hidden > 0 ? 1 : 0;
          moves += priced->cost.redistribution > 0 ? 1 : 0;
          expect_phase(priced->steps.forward, priced->cost.forward, text);
          expect_phase(priced->steps.backward, priced->cost.backward, text);
          expect_phase(priced->steps.backward_input, priced->cost.backward_input, text);
          expect_phase(priced->steps.backward_weight, priced->cost.backward_weight, text);
        }
      }
    }
  }
  EXPECT_GT(rings, 20);
  EXPECT_GT(moves, 20);
}

/// Tests blocks as layers of a strategy: with gradients that are reduced with every micro-batch, and neighbours
/// without a partition.
TEST(BlockSteps, OfALayerAddUpToItsCost) {
  std::mt19937 random(11);
  int gathers = 0, reductions = 0;
  for (int round = 0; round < 24; ++round) {
    const Model model = decoder(round % 2 == 0);
    const Cluster cluster = v100s(2);
    const CostContext context(model, cluster, training(), *find_engine("generic"));
    const auto graph = block_graph(context.workload.training.sequence, *context.engine, block_of(model), 8);
    Strategy s;
    s.tp = 8;
    s.zero = ZeroStage{round % 3};
    s.partition = BlockPartition(random_partition(*graph, 3, random));
    std::vector<LayerCost> costs;
    layer_costs(context, s, 1, 8, costs);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      const LayerSteps steps = layer_steps(context, s, 1, 8, static_cast<std::int32_t>(k));
      EXPECT_EQ(phase_time(steps.forward), costs[k].forward);
      EXPECT_EQ(phase_time(steps.backward), costs[k].backward);
      EXPECT_EQ(phase_time(steps.backward_input), costs[k].backward_input);
      EXPECT_EQ(phase_time(steps.backward_weight), costs[k].backward_weight);
      for (std::size_t i = 0; i < steps.backward.costs.size(); ++i) {
        if (steps.backward.costs[i].counted != Counted::on_top) continue;
        ++(steps.backward.steps[i].traffic.kind == CollectiveKind::all_reduce ? reductions : gathers);
        EXPECT_GT(steps.backward.steps[i].traffic.bytes, 0);
      }
    }
  }
  EXPECT_GT(gathers, 5);
  EXPECT_GT(reductions, 5);
}

}  // namespace
}  // namespace espalier::cost
