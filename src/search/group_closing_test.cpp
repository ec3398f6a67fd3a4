// SPDX-License-Identifier: Apache-2.0
#include "search/group_closing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace espalier::search::group_closing_test {
namespace {

solve::StageOption option(std::int32_t kind, std::int64_t forward, std::int64_t backward) {
  solve::StageOption out;
  out.kind = kind;
  out.forward_ns = {forward};
  out.backward_ns = {backward};
  out.static_bytes = out.saved_bytes = out.end_ns = {0};
  return out;
}

/// Builds a problem with layers of one type on one unit of each kind.
solve::DeviceGroupsProblem problem_of(std::size_t layers, std::vector<solve::StageOption> options, std::int32_t units) {
  solve::DeviceGroupsProblem problem;
  problem.units = {units, units};
  problem.layers.assign(layers, 0);
  problem.options = std::move(options);
  problem.microbatches = 4;
  return problem;
}

// One unit takes 3 per layer, another 6; there are two layers and four micro-batches. Alone they take 24 and 48. With
// one layer each, the slow stage takes 4·6, with the fast one before it 24 + 3 = 27. A round trip of both takes 9.
// Two micro-batches are in flight, so the fast one takes 9 + 3 + 9 = 21. With the slow one first: 9 + 6 + 10 = 25,
// where the last part is a step of 6 and a backward pass of 4.
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

// The fast unit has memory for one layer. It cannot hold both, and as the first of two stages it would keep two
// micro-batches, which is too much.
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

// Three layers, four micro-batches, all below 25. The fast unit takes 3 per layer: two layers take 24, three would
// take 36. So one stage of one or two layers is tried, and neither continues. With memory for the parameters of one
// layer, only that stage is tried. With a second unit, another stage of one layer follows it, and no unit is left for
// the third layer.
TEST(GroupClosing, AStageEndsWithItsTimeAndItsMemory) {
  solve::DeviceGroupsProblem problem = problem_of(3, {option(0, 1, 2)}, 1);
  const auto looked = [&] {
    std::int64_t left = 1000;
    EXPECT_TRUE(chains_below(problem, 25, left));
    return 1000 - left;
  };
  problem.options[0].memory_bytes = 100;
  EXPECT_EQ(looked(), 2);
  problem.options[0].static_bytes = {10};
  problem.options[0].memory_bytes = 19;
  EXPECT_EQ(looked(), 1);
  problem.units = {2, 0};
  EXPECT_EQ(looked(), 2);
  problem.options.push_back(option(1, 1, 2));  // an option of a missing kind
  EXPECT_EQ(looked(), 2);
}

// A fast unit takes 300 per layer, a slow one 600; there are four micro-batches and two layers. In two parts a layer
// may take 8 less: alone 4·(600 − 16) = 2,336 and 4·(1,200 − 16) = 4,736. With the fast one first, the slow one
// begins after 100 and takes 4·(600 − 8), 2,468 in total. With the slow one first, it takes 4·592 = 2,368 itself, and
// the other 200 + 4·292 = 1,368. An update of 200 after the slow one's layer counts both where it is last and where
// it is first.
TEST(GroupClosing, ZeroBubbleChainsByTheirOwnWork) {
  solve::DeviceGroupsProblem problem = problem_of(2, {option(0, 100, 200), option(1, 200, 400)}, 1);
  const auto bounds = [&] {
    std::int64_t left = 1000;
    const auto all = chains_below(problem, 1'000'000, left, ChainSchedule::zero_bubble);
    std::vector<std::int64_t> out;
    for (const solve::GroupedPipeline& chain : all.value_or(std::vector<solve::GroupedPipeline>{})) out.push_back(chain.bound_ns);
    return out;
  };
  EXPECT_EQ(bounds(), (std::vector<std::int64_t>{2336, 2368, 2468, 4736}));
  problem.options[1].end_ns = {200};
  EXPECT_EQ(bounds(), (std::vector<std::int64_t>{2336, 2568, 2668, 4736 + 400}));
  problem.all_units = true;
  EXPECT_EQ(bounds(), (std::vector<std::int64_t>{2568, 2668}));
  problem.max_stages = 1;
  EXPECT_TRUE(bounds().empty());
}

// ZB-H1 may be faster than 1F1B: its bound is never above that of 1F1B, and it rejects no chain that fits there.
TEST(GroupClosing, ZeroBubbleIsBoundedByLess) {
  std::mt19937 random(41);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::size_t chains = 0;
  for (int n = 0; n < 50; ++n) {
    solve::DeviceGroupsProblem problem = problem_of(
        static_cast<std::size_t>(draw(2, 4)), {option(0, draw(50, 90), draw(50, 90)), option(1, draw(50, 90), draw(50, 90))}, 2);
    for (solve::StageOption& o : problem.options) {
      o.saved_bytes = {draw(0, 5)};
      o.transient_bytes = {draw(0, 5)};
      o.memory_bytes = draw(5, 30);
    }
    std::int64_t left = 1'000'000;
    const auto usual = chains_below(problem, 1'000'000, left);
    ASSERT_TRUE(usual) << n;
    for (const solve::GroupedPipeline& chain : *usual) {
      const auto late = bounded(problem, chain.stages, ChainSchedule::zero_bubble);
      ASSERT_TRUE(late) << n;
      EXPECT_LE(late->bound_ns, chain.bound_ns) << n;
      ++chains;
    }
  }
  EXPECT_GT(chains, 100U);
}

/// The solver's answer is the least of the enumerated chains, and none lies below it.
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
}  // namespace espalier::search::group_closing_test
