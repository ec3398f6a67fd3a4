// SPDX-License-Identifier: Apache-2.0
#include "search/group_chains.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"

namespace espalier::search::group_chains_test {
namespace {

/// Builds options with kinds and units only, which suffice here.
StageOptions options_of(const std::vector<std::pair<std::int32_t, std::int32_t>>& kinds_and_units) {
  StageOptions out;
  for (const auto& [kind, units] : kinds_and_units) {
    solve::StageOption option;
    option.kind = kind;
    option.units = units;
    out.options.push_back(option);
    StageChoice choice;
    choice.group = static_cast<std::size_t>(kind);
    choice.strategy.dp = units;
    out.choices.push_back(choice);
  }
  return out;
}

bool has(const std::vector<Chain>& chains, const Chain& wanted) {
  return std::find(chains.begin(), chains.end(), wanted) != chains.end();
}

// Two stages have 3 and 1 layers. The boundary may move back by one or two layers but not forward. The stages swap
// places with three layers first, or with one; either may take all layers. Option 2 is the other one on one unit of
// kind 0. Stage 0 has two options on other units, and stage 1 has three. Only stage 0 can be cut: in seven ways, as
// each of four options may take either half.
TEST(GroupChains, SingleChangesOfAChain) {
  const StageOptions options = options_of({{0, 1}, {1, 1}, {0, 1}, {1, 2}});
  const std::vector<Chain> changes = changes_of({{0, 0, 2}, {1, 3, 3}}, options);
  EXPECT_EQ(changes.size(), 2U + 2U + 2U + 1U + (2U + 3U) + 7U);
  EXPECT_TRUE(has(changes, {{0, 0, 1}, {1, 2, 3}}));
  EXPECT_TRUE(has(changes, {{0, 0, 0}, {1, 1, 3}}));
  EXPECT_TRUE(has(changes, {{1, 0, 2}, {0, 3, 3}}));
  EXPECT_TRUE(has(changes, {{1, 0, 0}, {0, 1, 3}}));
  EXPECT_TRUE(has(changes, {{0, 0, 3}}));
  EXPECT_TRUE(has(changes, {{1, 0, 3}}));
  EXPECT_TRUE(has(changes, {{2, 0, 2}, {1, 3, 3}}));
  EXPECT_TRUE(has(changes, {{0, 0, 2}, {3, 3, 3}}));
  EXPECT_TRUE(has(changes, {{0, 0, 1}, {1, 2, 2}, {1, 3, 3}}));
}

// Two stages on one unit each join on two units of their kind. A stage on two units is cut into two on one unit each.
TEST(GroupChains, UnitsJoinAndPart) {
  const StageOptions options = options_of({{0, 1}, {0, 2}, {1, 2}});
  EXPECT_TRUE(has(changes_of({{0, 0, 1}, {0, 2, 3}}, options), {{1, 0, 3}}));
  EXPECT_FALSE(has(changes_of({{0, 0, 1}, {0, 2, 3}}, options), {{2, 0, 3}}));
  EXPECT_TRUE(has(changes_of({{1, 0, 3}}, options), {{0, 0, 1}, {0, 2, 3}}));
}

// The outer two of three stages swap places and take their layers along; the middle one moves.
TEST(GroupChains, StagesThatAreNoNeighboursChangePlaces) {
  const StageOptions options = options_of({{0, 1}, {1, 1}, {2, 1}});
  const std::vector<Chain> changes = changes_of({{0, 0, 0}, {1, 1, 2}, {2, 3, 5}}, options);
  EXPECT_TRUE(has(changes, {{2, 0, 2}, {1, 3, 4}, {0, 5, 5}}));
  EXPECT_TRUE(has(changes, {{2, 0, 0}, {1, 1, 2}, {0, 3, 5}}));
  for (const Chain& chain : changes) {
    std::int32_t next = 0;
    for (const solve::GroupedStage& stage : chain) {
      EXPECT_EQ(stage.first, next);
      EXPECT_LE(stage.first, stage.last);
      next = stage.last + 1;
    }
    EXPECT_EQ(next, 6);
  }
}

struct Fixture {
  Model model = load_model(R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": 4, "vocab_size": 8192, "max_position_embeddings": 2048})",
                           "test")
                    .value();
  Cluster cluster = load_cluster(
                        "{groups: [{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}, {nodes: 2, devices_per_node: 4, "
                        "device: v100-sxm-32gb}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}",
                        "test")
                        .value();
  Problem problem;
  Fixture() {
    problem.model = &model;
    problem.cluster = &cluster;
    problem.training.global_batch = 16;
    problem.engine = find_engine("generic");
  }
};

// The group has eight A100 and the next eight V100. The A100 stage of four devices comes first, so that both stages
// lie within halves of the node.
TEST(GroupChains, LargeStagesLieFirstInTheirGroup) {
  const Fixture f;
  const StageOptions options = options_of({{0, 2}, {0, 4}, {1, 4}});
  const Pipeline pipeline = pipeline_of(f.problem, options, {{0, 0, 1}, {2, 2, 3}, {1, 4, 5}}, 4);
  ASSERT_EQ(pipeline.stages.size(), 3U);
  EXPECT_EQ(pipeline.stages[0].devices, (std::vector<DeviceRange>{{4, 2, 1}}));
  EXPECT_EQ(pipeline.stages[1].devices, (std::vector<DeviceRange>{{8, 4, 1}}));
  EXPECT_EQ(pipeline.stages[2].devices, (std::vector<DeviceRange>{{0, 4, 1}}));
  EXPECT_EQ(pipeline.schedule.micro_batch, 2);  // 4 samples over the two replicas of the first stage
  EXPECT_EQ(pipeline.schedule.microbatches, 4);
}

// Units are single devices, as there are few of them. The limit on pp limits the stages. 16 samples are split into
// parts of 4.
TEST(GroupChains, TheSolverIsAskedForTheClusterAndTheSpace) {
  Fixture f;
  f.problem.space.limit(Dimension::pp, 3);
  const solve::DeviceGroupsProblem numbers = solver_problem(f.problem, options_of({{0, 1}, {1, 1}}), 4);
  EXPECT_EQ(numbers.units, (std::vector<std::int32_t>{8, 8}));
  EXPECT_EQ(numbers.layers.size(), 6U);
  EXPECT_EQ(numbers.microbatches, 4);
  EXPECT_EQ(numbers.max_stages, 3);
  EXPECT_FALSE(numbers.all_units);
  f.problem.space.devices = DeviceChoice::all;
  EXPECT_TRUE(solver_problem(f.problem, options_of({{0, 1}, {1, 1}}), 4).all_units);
}

// Two replicas of two ranks split a sequence. They have four devices, and a micro-batch of four samples has two
// samples for each replica.
TEST(GroupChains, AStageHasTheDevicesOfAllItsDegrees) {
  const Fixture f;
  StageOptions options = options_of({{0, 2}, {1, 4}});
  options.choices[0].strategy.cp = 2;
  const Pipeline pipeline = pipeline_of(f.problem, options, {{0, 0, 2}, {1, 3, 5}}, 4);
  EXPECT_EQ(pipeline.stages[0].devices, (std::vector<DeviceRange>{{0, 4, 1}}));
  EXPECT_EQ(pipeline.stages[1].devices, (std::vector<DeviceRange>{{8, 4, 1}}));
  EXPECT_EQ(pipeline.schedule.micro_batch, 2);
}

// Two units of a kind, four layers of 3 each, eight micro-batches: two stages have two layers, 6 each, so (8 + 2)·6.
TEST(GroupChains, TheEstimateOfEqualStages) {
  solve::DeviceGroupsProblem numbers;
  numbers.units = {2};
  numbers.layers.assign(4, 0);
  numbers.microbatches = 8;
  solve::StageOption option;
  option.forward_ns = {1};
  option.backward_ns = {2};
  option.end_ns = option.gather_ns = option.reduce_ns = {0};
  numbers.options = {option};
  EXPECT_DOUBLE_EQ(estimate_ns(numbers), 60.0);
}

/// Returns an option with one layer type with forward f and backward b on `units` units of a kind, without work at
/// the end of a step.
solve::StageOption timed(std::int32_t kind, std::int32_t units, std::int64_t f, std::int64_t b) {
  solve::StageOption option;
  option.kind = kind;
  option.units = units;
  option.forward_ns = {f};
  option.backward_ns = {b};
  option.end_ns = option.gather_ns = option.reduce_ns = {0};
  return option;
}

// Five layers, two units that take 3 per layer and one that takes 6: 2/15 + 1/30 = 1/6 of the model per nanosecond.
// One of three stages has two layers instead of the even 5/3, a factor of 6/5. The result is (10 + 3)·6·6/5.
TEST(GroupChains, TheEstimateAddsWhatKindsDo) {
  solve::DeviceGroupsProblem numbers;
  numbers.units = {2, 1};
  numbers.layers.assign(5, 0);
  numbers.microbatches = 10;
  numbers.options = {timed(0, 1, 1, 2), timed(1, 1, 2, 4)};
  EXPECT_NEAR(estimate_ns(numbers), 93.6, 1e-9);
}

// Two units of a kind form two stages of 3 per layer or one of 2 per layer. With four layers and one micro-batch,
// 6·(1 + 2) = 18 against 8·(1 + 1) = 16. With eight micro-batches, 6·10 = 60 against 8·9 = 72.
TEST(GroupChains, TheEstimateTakesTheBetterOptionOfAKind) {
  solve::DeviceGroupsProblem numbers;
  numbers.units = {2};
  numbers.layers.assign(4, 0);
  numbers.options = {timed(0, 1, 1, 2), timed(0, 2, 1, 1)};
  numbers.microbatches = 1;
  EXPECT_DOUBLE_EQ(estimate_ns(numbers), 16.0);
  numbers.microbatches = 8;
  EXPECT_DOUBLE_EQ(estimate_ns(numbers), 60.0);
}

// The layers are the embedding, four blocks and the head. Full recomputation counts the blocks of a stage, and a
// stage without blocks has none.
TEST(GroupChains, FullRecomputationCountsTheBlocksOfAStage) {
  const Fixture f;
  StageOptions options = options_of({{0, 2}, {0, 4}, {1, 4}});
  for (StageChoice& choice : options.choices) choice.strategy.recompute = {RecomputeKind::full, 1};
  const Pipeline pipeline = pipeline_of(f.problem, options, {{0, 0, 2}, {1, 3, 4}, {2, 5, 5}}, 4);
  const auto recompute = [&](std::size_t i) { return pipeline.stages[i].chunks.front().ranges.front().strategy.recompute; };
  EXPECT_EQ(recompute(0).layers, 2);
  EXPECT_EQ(recompute(1).layers, 2);
  EXPECT_EQ(recompute(2).kind, RecomputeKind::none);
}

// Messages overlap where there are any; a single stage sends none.
TEST(GroupChains, OneStageSendsNothing) {
  const Fixture f;
  const StageOptions options = options_of({{0, 2}, {0, 4}, {1, 4}});
  const auto overlaps = [&](const Pipeline& pipeline) {
    return pipeline.stages.front().chunks.front().ranges.front().strategy.overlap.p2p;
  };
  EXPECT_FALSE(overlaps(pipeline_of(f.problem, options, {{1, 0, 5}}, 4)));
  EXPECT_TRUE(overlaps(pipeline_of(f.problem, options, {{1, 0, 3}, {2, 4, 5}}, 4)));
  EXPECT_EQ(pipeline_of(f.problem, options, {{1, 0, 5}}, 4).samples, 16);
}

}  // namespace
}  // namespace espalier::search::group_chains_test
