// SPDX-License-Identifier: Apache-2.0
#include "search/single_group.h"

#include <gtest/gtest.h>

#include "cost/price.h"
#include "search/budgets.h"
#include "search/test_fixture.h"

namespace espalier::search::single_group_test {
namespace {

using test::Fixture;

constexpr const char* kMixed =
    "{groups: [{name: new, nodes: 1, devices_per_node: 4, device: a100-sxm-40gb}, {name: old, nodes: 2, devices_per_node: 4, "
    "device: v100-sxm-32gb, speed: {\"node:2\": 0.5}}], inter_group: {bandwidth: 100Gb/s, latency: 5us}}";

/// Runs everything sequentially, which no plan exceeds. A configuration and its plan take the same time.
class OneAfterTheOther : public Evaluator {
 public:
  std::int64_t peak_bytes(const ProgramStructure&, const cost::Costs&, int) override { return 0; }
  std::int64_t iteration_ns(const ProgramStructure&, const cost::Costs& costs, const CandidatePlan& plan, int) override {
    return sum(costs, plan.schedule);
  }
  std::optional<PlanEvaluation> evaluate(const Problem&, const cost::ClusterCosts& costs, const Plan& plan) override {
    Program program;
    placed.push_back(plan);
    return PlanEvaluation{sum(cost::price(costs, plan, program), plan.only_pipeline().schedule), true};
  }
  std::vector<Plan> placed;

 private:
  static std::int64_t sum(const cost::Costs& costs, const Schedule& schedule) {
    std::int64_t all = 0;
    for (const cost::WorkCost& work : costs.works) all += work.time.duration_ns() * schedule.microbatches;
    for (const Nanoseconds t : costs.collectives) all += t.count();
    for (const Nanoseconds t : costs.transfers) all += t.count() * schedule.microbatches;
    return all;
  }
};

TEST(SingleGroup, PlansLieOnTheirOwnDevices) {
  const Fixture f(kMixed, 8);
  OneAfterTheOther judge;
  const SingleGroupOutcome found = single_group(f.problem, judge, {});
  ASSERT_EQ(found.groups.size(), 2U);
  // The old nodes are of unequal speed: several of their plans are judged.
  ASSERT_GT(judge.placed.size(), 2U);
  ASSERT_LE(judge.placed.size(), 1 + kJudgedOfUnequal);
  for (std::size_t n = 0; n < judge.placed.size(); ++n)
    EXPECT_EQ(judge.placed[n].only_pipeline().stages.front().devices.front().first, n == 0 ? 0 : 4);
  EXPECT_TRUE(found.complete);
  ASSERT_TRUE(found.best);
  EXPECT_LE(found.best->iteration_ns, std::min(found.groups[0].best->iteration_ns, found.groups[1].best->iteration_ns));
  EXPECT_LE(found.lower_bound_ns, found.best->iteration_ns);
  EXPECT_GT(found.groups[0].space_size, 0);
}

TEST(SingleGroup, AnInterruptedSearchKnowsNoBound) {
  const Fixture f(kMixed, 8);
  OneAfterTheOther judge;
  Options how;
  how.interrupted = [] { return true; };
  const SingleGroupOutcome found = single_group(f.problem, judge, how);
  EXPECT_TRUE(found.interrupted);
  EXPECT_FALSE(found.complete);
}

/// The group is as slow as its slowest device: half the rates, the same memory and links. Restrictions of the job
/// still apply, and concurrent pipelines have one rank order.
TEST(SingleGroup, AGroupAlone) {
  const Fixture f(kMixed, 8);
  const Cluster old = group_alone(f.cluster, 1);
  const NodeGroup& group = old.groups.front();
  EXPECT_FALSE(old.has_speeds());
  EXPECT_EQ(group.device.peak_of(Precision::fp16).count() * 2, f.cluster.groups[1].device.peak_of(Precision::fp16).count());
  EXPECT_EQ(group.device.memory.count(), f.cluster.groups[1].device.memory.count());
  EXPECT_EQ(old.inter, f.cluster.groups[1].inter);
  SearchSpace space;
  space.allow(Dimension::tp, {2});
  space.kind = SpaceKind::layerwise;
  space = space_alone(space);
  EXPECT_EQ(space.kind, SpaceKind::uniform);
  EXPECT_EQ(space.allowed.at(Dimension::tp), std::vector<std::int64_t>{2});
  EXPECT_TRUE(space.admits(Dimension::order, RankOrder::tp_cp_pp_dp));
}

}  // namespace
}  // namespace espalier::search::single_group_test
