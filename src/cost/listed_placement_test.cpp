// SPDX-License-Identifier: Apache-2.0
// Plans whose stages list their devices in an order of their own. Groups are where the list puts them, counted by
// hand. A list in the canonical order costs what the closed form of that order costs.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cost/plan_testing.h"
#include "cost/test_problem.h"
#include "plan/generators.h"
#include "plan/rules.h"
#include "plan/test_problem.h"

namespace espalier::cost::listed_placement_test {
namespace {

using namespace test;

/// Returns nodes with 1 GB/s per device inside, 0.1 GB/s between, no latencies.
Cluster slow_network(std::int64_t nodes, std::int64_t devices_per_node) {
  Cluster c = round_cluster(devices_per_node);
  c.groups.front().nodes = nodes;
  FabricLevel network = c.groups.front().intra.front();
  network.name = "network";
  network.span = nodes * devices_per_node;
  network.bandwidth = network.bandwidth_alone = BytesPerSecond(1e8);
  c.inter = {network};
  return c;
}

Costs priced(const Plan& plan, const Model& model, const Cluster& cluster) {
  CostContext context(model, cluster, plan.training, plain_engine("generic"));
  context.fabric.place(plan);
  Program program = lower(plan, model, true);
  return price(context, plan, program);
}

void list_devices(Plan& plan, const std::vector<std::vector<std::int64_t>>& stages) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    plan.only_pipeline().stages[i].devices.clear();
    for (const std::int64_t device : stages[i]) plan.only_pipeline().stages[i].devices.push_back({device, 1, 1});
  }
}

/// Returns a plan of one MLP block (test_problem.h), TP 2 · DP 2 on two nodes of two devices.
Plan two_nodes(const Model& model, const Cluster& cluster) {
  Strategy s;
  s.tp = 2;
  s.dp = 2;
  return make_uniform_plan(model, cluster, tokens(1000, 8), "generic", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1},
                           SplitPolicy::balanced);
}

// The row linear's output is all-reduced in the tensor group: 1000 tokens · 64 · 2 bytes = 128,000 bytes, of which
// two ranks pass on 2 · 1/2. That takes 128 µs at 1 GB/s on the devices {0, 1} and {2, 3} of one node each, and
// 1,280 µs at 0.1 GB/s on {0, 2} and {1, 3}. Gradients are 64 · 256 · 2 / 2 = 16,384 elements per rank · 4
// bytes = 65,536 bytes in data groups. Groups {0, 2} and {1, 3} at 0.1 GB/s take 655,360 ns, {0, 1} and {2, 3} at
// 1 GB/s a tenth.
TEST(ListedPlacement, ASwapMovesTensorGroupsAcrossNodesAndDataGroupsInside) {
  const Model model = model_of(mlp());
  const Cluster cluster = slow_network(2, 2);
  Plan plan = two_nodes(model, cluster);
  const ProgramStructure structure = structure_of(plan.only_pipeline(), model);
  const Costs canonical = priced(plan, model, cluster);
  EXPECT_EQ(canonical.works[structure.forward(ChunkId(0))].time.exposed_ns, 128'000);
  EXPECT_EQ(canonical.collectives[structure.grad_reduce(ChunkId(0))].count(), 655'360);
  list_devices(plan, {{0, 2, 1, 3}});
  ASSERT_TRUE(unpriced_placement(plan, model, cluster).ok());
  const Costs swapped = priced(plan, model, cluster);
  EXPECT_EQ(swapped.works[structure.forward(ChunkId(0))].time.exposed_ns, 1'280'000);
  EXPECT_EQ(swapped.collectives[structure.grad_reduce(ChunkId(0))].count(), 65'536);
  EXPECT_EQ(swapped.works[structure.forward(ChunkId(0))].time.compute_ns,
            canonical.works[structure.forward(ChunkId(0))].time.compute_ns);
}

// Exchanging whole nodes, or the two devices of both nodes, moves no group to another level.
TEST(ListedPlacement, AnotherOrderOnTheSameLinksCostsTheSame) {
  const Model model = model_of(mlp());
  const Cluster cluster = slow_network(2, 2);
  Plan plan = two_nodes(model, cluster);
  const Costs canonical = priced(plan, model, cluster);
  for (const auto& order : {std::vector<std::int64_t>{2, 3, 0, 1}, {1, 0, 3, 2}, {3, 2, 1, 0}}) {
    list_devices(plan, {order});
    EXPECT_FALSE(devices_in_order(plan));
    EXPECT_EQ(priced(plan, model, cluster), canonical);
  }
}

// Stages on devices {0, 1} and {2, 3} communicate across nodes; on {0, 2} and {1, 3} each rank has its neighbour in
// its own node. 128,000 bytes take 1,280 µs and 128 µs.
TEST(ListedPlacement, MessagesGoFromPlaceToPlace) {
  const Model model = model_of(mlp(), 2);
  const Cluster cluster = slow_network(2, 2);
  Strategy s;
  s.dp = 2;
  Plan plan = make_uniform_plan(model, cluster, tokens(1000, 8), "generic", s, {ScheduleKind::one_f_one_b, 2, 1, 4, 1},
                                SplitPolicy::balanced);
  const TransferId first = structure_of(plan.only_pipeline(), model).transfer(ChunkId(1), false);
  EXPECT_EQ(priced(plan, model, cluster).transfers[first].count(), 1'280'000);
  list_devices(plan, {{0, 2}, {1, 3}});
  EXPECT_EQ(priced(plan, model, cluster).transfers[first].count(), 128'000);
  EXPECT_EQ(priced(plan, model, cluster).collectives[structure_of(plan.only_pipeline(), model).grad_reduce(ChunkId(0))].count(),
            32'768 * 4 * 10);
}

// A plan has no price if one group of a kind is torn across nodes while the others are not.
TEST(ListedPlacement, UnevenGroupsAreRefusedByName) {
  const Model model = model_of(mlp());
  const Cluster cluster = slow_network(4, 2);
  Strategy s;
  s.tp = 2;
  s.dp = 4;
  Plan plan = make_uniform_plan(model, cluster, tokens(1000, 16), "generic", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1},
                                SplitPolicy::balanced);
  EXPECT_TRUE(unpriced_placement(plan, model, cluster).ok());
  list_devices(plan, {{0, 2, 1, 3, 4, 5, 6, 7}});
  const Status refused = unpriced_placement(plan, model, cluster);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(refused.error().where, "$.pipelines[0].stages[0].devices");
  EXPECT_EQ(refused.error().found, "device-order: tensor groups with 1 + 1 and 2 members per domain of level node");
}

// Counting domain by domain equals counting by extent. On nodes of a power of two every group is aligned, and the
// list of the order itself costs the same.
TEST(ListedPlacement, ACanonicalListCostsWhatItsOrderCosts) {
  const Model model = plan_test::decoder({8, 8, 4, 16, 512, 1000, 4, 256});
  const Cluster cluster = slow_network(4, 4);
  Training training = tokens(64, 32);
  const RuleFacts facts = rule_facts(model, cluster, training);
  int compared = 0;
  EXPECT_TRUE(rc::check([&] {
    for (const auto& [s, c] : *plan_test::many(plan_test::likely_configuration(16, 32))) {
      if (!is_legal(facts, s, c)) continue;
      const Plan plan = make_uniform_plan(model, cluster, training, "generic", s, c, SplitPolicy::balanced);
      RC_ASSERT(devices_in_order(plan));
      CostContext context(model, cluster, training, plain_engine("generic"));
      Program program = lower(plan, model, true);
      const Costs by_extent = price(context, plan, program);
      context.fabric.listed = std::make_shared<const StageDevices>(stage_devices(plan.only_pipeline()));
      RC_ASSERT(price(context, plan, program) == by_extent);
      ++compared;
    }
  }));
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace espalier::cost::listed_placement_test
