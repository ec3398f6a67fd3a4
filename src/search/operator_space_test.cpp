// SPDX-License-Identifier: Apache-2.0
#include "search/operator_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cost/collective.h"
#include "data/source_dir.h"
#include "plan/engine.h"

namespace espalier::search {
namespace {

struct LayerPricing {
  Model model;
  Cluster cluster;
  Training training;
  std::unique_ptr<cost::CostContext> context;
};

std::unique_ptr<LayerPricing> scene(const char* name, int bits, std::int64_t batch, const char* engine) {
  auto s = std::make_unique<LayerPricing>();
  s->model = *load_model_file(std::string(ESPALIER_SOURCE_DIR) + "/models/" + name + "/config.json");
  const int nodes = bits > 2 ? 1 << (bits - 2) : 1;
  s->cluster =
      *load_cluster("{nodes: " + std::to_string(nodes) +
                        ", devices_per_node: 4, device: v100-sxm-32gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}",
                    "cluster");
  s->training.sequence.main = 2048;
  s->training.global_batch = batch;
  s->training.precision = Precision::fp16;
  s->context = std::make_unique<cost::CostContext>(s->model, s->cluster, s->training, *find_engine(engine));
  return s;
}

std::unique_ptr<BlockSpace> space(const LayerPricing& s, int bits, const PartitionRules& rules = {},
                                  const PartitionWeights& weights = {}) {
  auto made = BlockSpace::make(*s.context, s.model.layer(1), s.training.global_batch, bits, rules, weights);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

std::vector<std::string> names(const BlockSpace& space) {
  std::vector<std::string> all;
  for (int n = 1; n < space.nodes(); ++n) all.push_back(space.operation(n).shape.name);
  return all;
}

// Checks OPT's block as in the figure of the paper, and Llama's with fused attention. OPT's has 12 operators after
// the stream that enters, residual edges 0 → 7 and 7 → 12, and V from 2 to 5.
TEST(OperatorSpace, GraphIsThatOfThePaper) {
  const auto opt = scene("opt-6.7b", 1, 8, "megatron-lm-2021");
  const auto block = space(*opt, 1);
  EXPECT_EQ(names(*block), (std::vector<std::string>{"attn.norm", "attn.qkv", "attn.core.scores", "attn.core.softmax",
                                                     "attn.core.values", "attn.out", "attn.residual", "mlp.norm", "mlp.up",
                                                     "mlp.activation", "mlp.down", "mlp.residual"}));
  std::vector<std::pair<int, int>> longer;
  for (const solve::OperatorEdge& edge : block->problem().edges)
    if (edge.is_long()) longer.emplace_back(edge.from, edge.to);
  EXPECT_EQ(longer, (std::vector<std::pair<int, int>>{{2, 5}, {0, 7}, {7, 12}}));
  const auto llama = scene("llama-2-7b", 1, 8, "generic");
  EXPECT_EQ(names(*space(*llama, 1)),
            (std::vector<std::string>{"attn.norm", "attn.qkv", "attn.core", "attn.out", "attn.residual", "mlp.norm",
                                      "mlp.gate_up", "mlp.activation", "mlp.down", "mlp.residual"}));
}

/// Compares every combination of options with the search, at nine capacities from the smallest footprint to the
/// largest.
void expect_search_equals_trying_all(const solve::OperatorProblem& problem) {
  std::vector<solve::OperatorPlan> all;
  std::vector<std::int32_t> options(problem.nodes.size(), 0);
  std::function<void(std::size_t)> choose = [&](std::size_t node) {
    if (node == options.size()) {
      const auto entering = std::find_if(problem.nodes[0].begin(), problem.nodes[0].end(), [&](const solve::OperatorOption& o) {
        return o.out == problem.nodes.back()[static_cast<std::size_t>(options.back())].out;
      });
      options[0] = static_cast<std::int32_t>(entering - problem.nodes[0].begin());
      all.push_back(solve::evaluate_operators(problem, options));
      all.back().options.clear();
      return;
    }
    for (std::size_t p = 0; p < problem.nodes[node].size(); ++p) {
      options[node] = static_cast<std::int32_t>(p);
      choose(node + 1);
    }
  };
  choose(1);
  ASSERT_GT(all.size(), 1000u);
  std::int64_t least = solve::kNoCapacity, most = 0;
  for (const solve::OperatorPlan& plan : all) {
    least = std::min(least, plan.footprint());
    most = std::max(most, plan.footprint());
  }
  for (int part = 0; part <= 8; ++part) {
    solve::OperatorRequest request;
    request.capacity = least + (most - least) * part / 8;
    std::int64_t best = solve::kNoCapacity;
    for (const solve::OperatorPlan& plan : all)
      if (plan.footprint() <= request.capacity) best = std::min(best, plan.time);
    const solve::OperatorAnswer answer = solve::best_operators(problem, request);
    ASSERT_TRUE(answer.certified && !answer.plans.empty());
    EXPECT_EQ(answer.plans[0].time, best) << part;
    EXPECT_LE(answer.plans[0].footprint(), request.capacity);
  }
}

// A batch of one leaves a few options per operator of a whole block on two devices.
TEST(OperatorSpace, SearchOfABlockEqualsTryingAll) {
  const auto llama = scene("llama-2-7b", 1, 1, "generic");
  PartitionWeights weights;
  weights.state_bytes = 3;
  expect_search_equals_trying_all(space(*llama, 1, {}, weights)->problem());
}

// Two linears, an activation and the addition on four devices, P included, make 17 · 16 · 17 · 16 plans.
TEST(OperatorSpace, SearchOfAnMlpEqualsTryingAll) {
  const auto opt = scene("opt-6.7b", 2, 8, "generic");
  LayerKind mlp;
  mlp.name = "mlp";
  mlp.hidden = 4096;
  for (const Operator& op : opt->model.layer(1).operators)
    if (op.name == "mlp.up" || op.name == "mlp.activation" || op.name == "mlp.down" || op.name == "mlp.residual")
      mlp.operators.push_back(op);
  const auto made = BlockSpace::make(*opt->context, mlp, 8, 2, {}, {});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->problem().nodes[1].size(), 17u);
  expect_search_equals_trying_all((*made)->problem());
}

TEST(OperatorSpace, NeverWorseThanMegatron) {
  for (const char* name : {"opt-6.7b", "llama-2-70b", "bloom-7b1"})
    for (int bits = 1; bits <= 3; ++bits) {
      const auto s = scene(name, bits, 8, bits == 2 ? "generic" : "megatron-lm-2021");
      const auto block = space(*s, bits);
      const auto best = solve::best_operators(block->problem(), {});
      ASSERT_TRUE(best.certified);
      int points = 0;
      for (int d = 0; d <= bits; ++d) {
        const auto megatron = block->megatron(d);
        if (!megatron) continue;
        ++points;
        EXPECT_LE(best.plans[0].time, megatron->time) << name;
        solve::OperatorRequest request;
        request.capacity = megatron->footprint();
        const auto within = solve::best_operators(block->problem(), request);
        ASSERT_TRUE(within.certified && !within.plans.empty());
        EXPECT_LE(within.plans[0].time, megatron->time) << name;
        EXPECT_LE(within.plans[0].footprint(), megatron->footprint());
      }
      EXPECT_EQ(points, bits + 1);
    }
}

// Megatron on four devices of one node has two all-reduces of the stream forward, two backward, and no
// redistribution. Every device holds a quarter of the matrices.
TEST(OperatorSpace, MegatronIsAPoint) {
  const auto opt = scene("opt-6.7b", 2, 8, "megatron-lm-2021");
  const auto block = space(*opt, 2);
  const auto plan = block->megatron(0);
  ASSERT_TRUE(plan);
  const cost::BlockCost cost = block->cost_of(*plan);
  EXPECT_EQ(cost.redistribution, 0);
  EXPECT_EQ(cost.gradient_sync, 0);
  const double stream = 2.0 * 8 * 2048 * 4096;
  const double once =
      cost::all_reduce_s(opt->context->fabric.tensor_levels, cost::place_group(opt->context->fabric.tensor_levels, 4, 1), stream);
  EXPECT_NEAR(cost.collective, 4 * once, 4 * 0.5e-9);  // each is rounded to whole nanoseconds
  EXPECT_NEAR(static_cast<double>(cost.parameters), 12.0 * 4096 * 4096 / 4, 40000);
}

TEST(OperatorSpace, RulesLeaveOut) {
  const auto s = scene("opt-6.7b", 3, 8, "generic");
  const auto uses = [](const BlockSpace& space, const std::function<bool(const partition::BasicPartition&)>& what) {
    for (int n = 1; n < space.nodes(); ++n)
      for (std::size_t o = 0; o < space.problem().nodes[static_cast<std::size_t>(n)].size(); ++o) {
        const auto& sequence = space.sequence(n, static_cast<std::int32_t>(o));
        if (std::any_of(sequence.begin(), sequence.end(), what)) return true;
      }
    return false;
  };
  const auto batch = [](const partition::BasicPartition& part) { return part.dimension == 'B'; };
  const auto primitive = [](const partition::BasicPartition& part) { return part.primitive(); };
  const auto whole = space(*s, 3), inner = space(*s, 3, {false, true}), flat = space(*s, 3, {true, false});
  EXPECT_TRUE(uses(*whole, batch) && uses(*whole, primitive));
  EXPECT_TRUE(!uses(*inner, batch) && uses(*inner, primitive));
  EXPECT_TRUE(uses(*flat, batch) && !uses(*flat, primitive));
  const auto best = [](const BlockSpace& space) { return solve::best_operators(space.problem(), {}).plans.at(0).time; };
  EXPECT_LE(best(*whole), best(*inner));
  EXPECT_LE(best(*whole), best(*flat));
}

// The objective is the sum of the block's costs, up to the rounding of each part.
TEST(OperatorSpace, CostsAddUp) {
  const auto s = scene("llama-2-7b", 3, 8, "megatron-lm-2021");
  PartitionWeights weights;
  weights.state_bytes = 12;
  weights.copies = 4;
  weights.in_flight = 2;
  const auto block = space(*s, 3, {}, weights);
  for (const solve::OperatorPlan& plan : solve::operator_frontier(block->problem(), {}, 6)) {
    const cost::BlockCost cost = block->cost_of(plan);
    const auto busy = [](const cost::PhaseTime& t) { return t.compute_ns + t.exposed_ns; };
    EXPECT_NEAR(static_cast<double>(plan.time),
                static_cast<double>(busy(cost.forward) + busy(cost.backward)) + cost.gradient_sync * 1e9, 40.0);
    EXPECT_EQ(plan.memory, 4 * (12 * cost.parameters + 2 * cost.saved));
    EXPECT_EQ(plan.transient, std::max(cost.forward_transient, cost.backward_transient));
    EXPECT_NEAR(static_cast<double>(busy(cost.backward_input) + busy(cost.backward_weight)),
                static_cast<double>(busy(cost.backward)), 10.0);
  }
}

TEST(OperatorSpace, RefusesWhatItCannotPlan) {
  const auto moe = scene("mixtral-8x7b", 2, 8, "generic");
  const auto refused = BlockSpace::make(*moe->context, moe->model.layer(1), 8, 2, {}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("operator"), std::string::npos);
  const auto opt = scene("opt-6.7b", 2, 8, "generic");
  // More devices than there are.
  EXPECT_FALSE(BlockSpace::make(*opt->context, opt->model.layer(1), 8, 5, {}, {}).ok());
}

}  // namespace
}  // namespace espalier::search
