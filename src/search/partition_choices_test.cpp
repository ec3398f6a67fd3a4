// SPDX-License-Identifier: Apache-2.0
#include "search/partition_choices.h"

#include <gtest/gtest.h>

#include "cost/partitioned_block.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"
#include "search/cost_book.h"

namespace espalier::search::partition_choices_test {
namespace {

struct Case {
  Model model;
  Cluster cluster;
  Problem problem;
};

Case case_of(const std::string& engine = "generic") {
  Case c;
  DecoderShape shape;
  shape.layers = 4;
  shape.hidden = 2048;
  shape.ffn = 8192;
  shape.heads = shape.kv_heads = 16;
  shape.vocabulary = 32000;
  shape.max_positions = 1024;
  c.model = make_decoder(shape, "test").value();
  c.cluster =
      load_cluster("{nodes: 4, devices_per_node: 2, device: v100-sxm-32gb, inter_node: {bandwidth: 25Gb/s, nics_per_node: 1}}",
                   "cluster")
          .value();
  c.problem.training.sequence.main = 1024;
  c.problem.training.global_batch = 8;
  c.problem.training.precision = Precision::fp16;
  c.problem.engine = find_engine(engine);
  return c;
}

Problem problem_of(const Case& c) {
  Problem p = c.problem;
  p.model = &c.model;
  p.cluster = &c.cluster;
  return p;
}

TEST(PartitionChoices, EveryGroupThatMayTakePartitionsIsOfferedSome) {
  const Case c = case_of();
  const Problem problem = problem_of(c);
  const PartitionChoices choices = partition_choices(problem, {});
  EXPECT_EQ(choices.inexact, 0);
  EXPECT_LE(choices.layered_lower_bound_ns, choices.lower_bound_ns);
  EXPECT_EQ(choices.offers.count({8, 8}), 1U);
  EXPECT_EQ(choices.offers.count({1, 1}), 0U);
  for (const auto& [key, offer] : choices.offers) {
    EXPECT_FALSE(offer.partitions.empty());
    Strategy s;
    s.tp = key.first;
    for (const BlockPartition& partition : offer.partitions) {
      s.partition = partition;
      EXPECT_EQ(partition_fault(s), "");
      EXPECT_EQ(partition.text().find('B'), std::string::npos) << partition.text();  // the batch belongs to dp
    }
  }
}

TEST(PartitionChoices, NothingOfferedIsFasterThanTheBounds) {
  const Case c = case_of();
  Problem problem = problem_of(c);
  const PartitionChoices choices = partition_choices(problem, {});
  problem.partitions = &choices;
  const cost::CostContext context(c.model, c.cluster, problem.training, *problem.engine);
  const Space space(c.model, c.cluster, problem.training, *problem.engine, problem.space, &choices);
  CostBook book(problem);
  Workspace w;
  int partitioned = 0;
  space.layer_group([&](const Configuration& one) {
    if (one.strategy.partition.empty()) return;
    ++partitioned;
    EXPECT_TRUE(space.contains(one));
    cost::layer_costs(book.context(), one.strategy, one.schedule.stages, one.schedule.micro_batch, w.layers);
    const auto& offer = choices.offers.at({one.strategy.tp, one.schedule.micro_batch});
    for (std::size_t k = 0; k < w.layers.size(); ++k)
      EXPECT_GE(w.layers[k].forward.duration_ns() + w.layers[k].backward.duration_ns(), offer.least_block_ns[k]);
    EXPECT_GE(layer_group_bound_ns(book, one, w), choices.lower_bound_ns);
  });
  EXPECT_GT(partitioned, 20);
}

TEST(PartitionChoices, APairThatItsBoundBeatsIsOfferedNothing) {
  const Case c = case_of();
  PartitionOptions options;
  options.incumbent_ns = 1;
  for (const auto& [key, offer] : partition_choices(problem_of(c), options).offers) EXPECT_TRUE(offer.partitions.empty());
}

TEST(PartitionChoices, LeavesAreCountedWithPartitions) {
  const Case c = case_of();
  Problem problem = problem_of(c);
  problem.space.limits = {{Dimension::pp, 2}, {Dimension::vpp, 2}};
  const PartitionChoices choices = partition_choices(problem, {});
  Space space(c.model, c.cluster, problem.training, *problem.engine, problem.space, &choices);
  double counted = 0, visited = 0;
  space.layer_group([&](const Configuration& one) { counted += space.leaves(one); });
  space.for_each([&](const Configuration& one) {
    ++visited;
    EXPECT_FALSE(!one.strategy.partition.empty() && one.strategy.recompute.kind == RecomputeKind::selective);
  });
  EXPECT_EQ(counted, visited);
}

TEST(PartitionChoices, OnlyTheGenericEngineTakesThem) {
  const Case c = case_of("megatron-core");
  EXPECT_FALSE(partitions_apply(problem_of(c)));
  EXPECT_TRUE(partition_choices(problem_of(c), {}).offers.empty());
}

}  // namespace
}  // namespace espalier::search::partition_choices_test
