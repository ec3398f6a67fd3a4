// SPDX-License-Identifier: Apache-2.0
#include "search/group_closing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace espalier::search {
namespace {

solve::StageOption option(std::int32_t kind, std::int64_t forward, std::int64_t backward) {
  solve::StageOption out;
  out.kind = kind;
  out.forward_ns = {forward};
  out.backward_ns = {backward};
  out.static_bytes = out.saved_bytes = out.end_ns = {0};
  return out;
}

/// Layers of one type on one unit of each kind.
solve::DeviceGroupsProblem problem_of(std::size_t layers, std::vector<solve::StageOption> options, std::int32_t units) {
  solve::DeviceGroupsProblem problem;
  problem.units = {units, units};
  problem.layers.assign(layers, 0);
  problem.options = std::move(options);
  problem.microbatches = 4;
  return problem;
}

// One unit that takes 3 a layer, one that takes 6; two layers, four micro-batches. Alone they take 24 and 48. One layer each: the slow stage takes
// 4·6, with the fast one before it 24 + 3 = 27; a trip of both takes 9, and as two are in flight: 9 + 3 + 9 = 21 for the fast one. The
// slow one first: 9 + 6 + 10 = 25, the last part being a step of 6 and a backward of 4.
TEST(GroupClosing, AllChainsByTheirBound) {
  const solve::DeviceGroupsProblem problem = problem_of(2, {option(0, 1, 2), option(1, 2, 4)}, 1);
  std::int64_t left = 1000;
  const auto all = chains_below(problem, 1000, left);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 4U);
  EXPECT_EQ((*all)[0].bound_ns, 24);
  EXPECT_EQ((*all)[1].bound_ns, 25);
  EXPECT_EQ((*all)[2].bound_ns, 27);
  EXPECT_EQ((*all)[2].stages, (std::vector<solve::GroupedStage>{{0, 0, 0}, {1, 1, 1}}));
  EXPECT_EQ((*all)[3].bound_ns, 48);
  EXPECT_LT(left, 1000);
}

TEST(GroupClosing, OnlyWhatIsBelow) {
  const solve::DeviceGroupsProblem problem = problem_of(2, {option(0, 1, 2), option(1, 2, 4)}, 1);
  std::int64_t left = 1000;
  EXPECT_EQ(chains_below(problem, 27, left)->size(), 2U);
  EXPECT_EQ(chains_below(problem, 24, left)->size(), 0U);
}

TEST(GroupClosing, SaysNothingWhenThereIsTooMuchToLookAt) {
  const solve::DeviceGroupsProblem problem = problem_of(12, {option(0, 1, 2), option(1, 2, 4)}, 4);
  std::int64_t left = 50;
  EXPECT_FALSE(chains_below(problem, 1'000'000, left));
  EXPECT_LT(left, 0);
}

TEST(GroupClosing, NoMoreStagesThanAllowed) {
  solve::DeviceGroupsProblem problem = problem_of(2, {option(0, 1, 2), option(1, 2, 4)}, 1);
  problem.max_stages = 1;
  std::int64_t left = 1000;
  const auto all = chains_below(problem, 1000, left);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  for (const solve::GroupedPipeline& chain : *all) EXPECT_EQ(chain.stages.size(), 1U);
}

// Memory for one layer of the fast unit: it cannot have both, and as the first of two stages it keeps two micro-batches, which is too much.
TEST(GroupClosing, OnlyWhatFits) {
  solve::DeviceGroupsProblem problem = problem_of(2, {option(0, 1, 2), option(1, 2, 4)}, 1);
  problem.options[0].saved_bytes = {10};
  problem.options[0].memory_bytes = 10;
  std::int64_t left = 1000;
  const auto all = chains_below(problem, 1000, left);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].stages, (std::vector<solve::GroupedStage>{{1, 0, 0}, {0, 1, 1}}));
  EXPECT_EQ((*all)[1].stages, (std::vector<solve::GroupedStage>{{1, 0, 1}}));
}

/// The solver's answer is the least of the chains that are looked at, and there is none below it.
TEST(GroupClosing, AgreesWithTheSolver) {
  std::mt19937 random(31);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int feasible = 0;
  for (int n = 0; n < 100; ++n) {
    std::vector<solve::StageOption> options;
    for (int o = draw(1, 4); o > 0; --o) options.push_back(option(draw(0, 1), draw(1, 9), draw(1, 9)));
    solve::DeviceGroupsProblem problem = problem_of(static_cast<std::size_t>(draw(1, 5)), options, draw(1, 2));
    problem.send_ns = {{draw(0, 3), draw(0, 3)}, {draw(0, 3), draw(0, 3)}};
    const solve::DeviceGroupsOutcome found = solve::plan_device_groups(problem);
    ASSERT_TRUE(found.exact) << n;
    std::int64_t left = 1'000'000;
    const auto all = chains_below(problem, 1'000'000, left);
    ASSERT_TRUE(all) << n;
    ASSERT_EQ(all->empty(), found.candidates.empty()) << n;
    if (all->empty()) continue;
    ++feasible;
    EXPECT_EQ(all->front().bound_ns, found.lower_bound_ns) << n;
    EXPECT_TRUE(chains_below(problem, found.lower_bound_ns, left)->empty()) << n;
    EXPECT_TRUE(std::is_sorted(all->begin(), all->end(), [](const auto& a, const auto& b) { return a.bound_ns < b.bound_ns; }));
  }
  EXPECT_GT(feasible, 80);
}

}  // namespace
}  // namespace espalier::search
