// SPDX-License-Identifier: Apache-2.0
#include "solve/operator_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace espalier::solve::operator_search_test {
namespace {

/// Holds costs as tables, [edge][out][in].
class TableCosts final : public EdgeCosts {
 public:
  std::vector<std::vector<std::vector<std::int64_t>>> table;
  [[nodiscard]] std::int64_t at(std::int32_t edge, std::int32_t out, std::int32_t in) const override {
    return table[static_cast<std::size_t>(edge)][static_cast<std::size_t>(out)][static_cast<std::size_t>(in)];
  }
};

OperatorOption option(std::int64_t time, std::int64_t memory, std::int32_t layout, std::int64_t transient = 0) {
  return {time, memory, transient, layout, layout, layout};
}

using Visit = std::function<void(const OperatorPlan&)>;
void all_plans(const OperatorProblem& problem, const Visit& visit) {
  std::vector<std::int32_t> options(problem.nodes.size(), 0);
  const auto last = static_cast<std::int32_t>(options.size()) - 1;
  std::function<void(std::int32_t)> choose = [&](std::int32_t node) {
    if (node > last) {
      const OperatorPlan plan = evaluate_operators(problem, options);
      if (plan.time < kNoCapacity) visit(plan);
      return;
    }
    for (std::size_t p = 0; p < problem.nodes[static_cast<std::size_t>(node)].size(); ++p) {
      options[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(p);
      choose(node + 1);
    }
  };
  choose(0);
}

/// Returns (time, footprint) of the plans that fit, rising.
std::vector<std::pair<std::int64_t, std::int64_t>> brute_force(const OperatorProblem& problem, std::int64_t capacity) {
  std::vector<std::pair<std::int64_t, std::int64_t>> values;
  all_plans(problem, [&](const OperatorPlan& plan) {
    if (plan.footprint() <= capacity) values.emplace_back(plan.time, plan.footprint());
  });
  std::sort(values.begin(), values.end());
  return values;
}

struct RandomProblem {
  TableCosts costs;
  OperatorProblem problem;
};

/// Builds chains of 3 to 6 nodes with up to 5 options over up to 4 layouts and nested long edges, with ties on
/// purpose.
void fill(RandomProblem& r, std::mt19937& random, bool block_shape) {
  const auto number = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int last = block_shape ? 6 : number(2, 5), layouts = number(1, 4), range = number(0, 1) == 0 ? 4 : 60;
  auto& p = r.problem;
  p.closed = number(0, 1) == 0;
  for (int i = 0; i <= last; ++i) {
    std::vector<OperatorOption> options;
    if (i == 0) {
      for (std::int32_t l = 0; l < layouts; ++l) options.push_back({0, 0, 0, l, l, l});
    } else {
      const int count = number(1, block_shape ? 4 : 5);
      for (int k = 0; k < count; ++k)
        options.push_back({number(0, range), number(0, range), number(0, range), number(0, layouts - 1), number(0, layouts - 1),
                           number(0, layouts - 1)});
    }
    p.nodes.push_back(options);
  }
  for (std::int32_t i = 0; i < last; ++i) p.edges.push_back({i, i + 1});
  if (block_shape) {  // residual 0 → 4 around a branch with 1 → 3, residual 4 → 6
    for (const auto& [from, to] : {std::pair{0, 4}, std::pair{1, 3}, std::pair{4, 6}}) p.edges.push_back({from, to});
  } else {
    std::vector<std::pair<int, int>> chosen;
    for (int tries = number(0, 4); tries > 0; --tries) {
      const int from = number(0, last - 1), to = number(from + 1, last);
      const bool crosses = std::any_of(chosen.begin(), chosen.end(), [&](const auto& e) {
        return (e.first < from && from < e.second && e.second < to) || (from < e.first && e.first < to && to < e.second);
      });
      if (to == from + 1 || crosses) continue;
      chosen.emplace_back(from, to);
      p.edges.push_back({from, to});
    }
  }
  std::shuffle(p.edges.begin(), p.edges.end(), random);
  const auto size = static_cast<std::size_t>(layouts);
  r.costs.table.assign(p.edges.size(), std::vector(size, std::vector<std::int64_t>(size)));
  for (auto& table : r.costs.table)
    for (std::size_t a = 0; a < size; ++a)
      for (std::size_t b = 0; b < size; ++b) table[a][b] = a == b && number(0, 2) > 0 ? 0 : number(0, range);
  p.costs = &r.costs;
}

std::pair<std::int64_t, std::int64_t> value(const OperatorPlan& plan) { return {plan.time, plan.footprint()}; }

// Entering layouts are 0 and 1. Node 1 takes 10 ns in layout 0 or 7 in layout 1; node 2 takes 5 in layout 0 or 9 in
// layout 1. Changing layout costs 4 on an edge and 1 on the residual edge 0 → 2. Layout 0 throughout takes 15, layout
// 1 throughout 16. 1 and then 0 takes 7 + 4 + 5 = 16 and, since the leaving layout equals the entering one, another 4
// on the way in. Held bytes are 3 and 1 each. Within 3 bytes 15 does not fit, and one of each layout costs at least
// 10 + 4 + 9 + 4; so the answer is 16.
TEST(OperatorSearch, IsTheSmallestExampleByHand) {
  TableCosts costs;
  costs.table = {{{0, 4}, {4, 0}}, {{0, 4}, {4, 0}}, {{0, 1}, {1, 0}}};
  OperatorProblem problem;
  problem.nodes = {{option(0, 0, 0), option(0, 0, 1)}, {option(10, 3, 0), option(7, 1, 1)}, {option(5, 3, 0), option(9, 1, 1)}};
  problem.edges = {{0, 1}, {1, 2}, {0, 2}};
  problem.costs = &costs;
  const OperatorAnswer free = best_operators(problem, {});
  ASSERT_EQ(free.plans.size(), 1u);
  EXPECT_TRUE(free.certified);
  EXPECT_EQ(free.plans[0].time, 15);
  EXPECT_EQ(free.plans[0].options, (std::vector<std::int32_t>{0, 0, 0}));
  OperatorRequest tight;
  tight.capacity = 3;
  const OperatorAnswer capped = best_operators(problem, tight);
  ASSERT_EQ(capped.plans.size(), 1u);
  EXPECT_EQ(capped.plans[0].time, 16);
  EXPECT_EQ(capped.lower_bound, 16);
  tight.capacity = 1;
  const OperatorAnswer none = best_operators(problem, tight);
  EXPECT_TRUE(none.certified && none.plans.empty());
}

TEST(OperatorSearch, EqualsTryingAll) {
  std::mt19937 random(7);
  int capped = 0, empty = 0;
  for (int round = 0; round < 600; ++round) {
    RandomProblem r;
    fill(r, random, round % 2 == 0);
    const auto all = brute_force(r.problem, kNoCapacity);
    OperatorRequest request;
    if (round % 3 != 0 && !all.empty()) {
      std::int64_t least = kNoCapacity, most = 0;
      for (const auto& v : all) {
        least = std::min(least, v.second);
        most = std::max(most, v.second);
      }
      request.capacity = std::uniform_int_distribution<std::int64_t>(least - 1, most)(random);
      ++capped;
    }
    const auto fitting = brute_force(r.problem, request.capacity);
    const OperatorAnswer answer = best_operators(r.problem, request);
    ASSERT_TRUE(answer.certified) << round;
    ASSERT_EQ(answer.plans.empty(), fitting.empty()) << round;
    empty += fitting.empty();
    if (fitting.empty()) continue;
    EXPECT_EQ(value(answer.plans.front()), fitting.front()) << round;
    EXPECT_EQ(answer.lower_bound, fitting.front().first);
    EXPECT_EQ(value(evaluate_operators(r.problem, answer.plans.front().options)), fitting.front()) << round;
  }
  EXPECT_GE(capped, 200);
  EXPECT_LT(empty, 200);
}

TEST(OperatorSearch, FindsTheBestFew) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    RandomProblem r;
    fill(r, random, round % 2 == 0);
    OperatorRequest request;
    request.best = 1 + round % 7;
    const auto everything = brute_force(r.problem, kNoCapacity);
    if (round % 2 == 1 && !everything.empty()) request.capacity = everything[everything.size() / 2].second;
    const auto all = brute_force(r.problem, request.capacity);
    const OperatorAnswer answer = best_operators(r.problem, request);
    ASSERT_TRUE(answer.certified);
    ASSERT_EQ(answer.plans.size(), std::min(all.size(), static_cast<std::size_t>(request.best))) << round;
    for (std::size_t i = 0; i < answer.plans.size(); ++i) {
      EXPECT_EQ(answer.plans[i].time, all[i].first) << round;
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(answer.plans[i].options, answer.plans[j].options);
    }
  }
}

TEST(OperatorSearch, FrontierIsEveryPlanThatNoOtherBeats) {
  std::mt19937 random(13);
  for (int round = 0; round < 150; ++round) {
    RandomProblem r;
    fill(r, random, round % 2 == 0);
    std::vector<std::pair<std::int64_t, std::int64_t>> expected;
    for (const auto& v : brute_force(r.problem, kNoCapacity))
      if (expected.empty() || v.second < expected.back().second) expected.push_back(v);
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const OperatorPlan& plan : operator_frontier(r.problem, {}, 1000)) found.push_back(value(plan));
    EXPECT_EQ(found, expected) << round;
  }
}

// The log2(n) products of the block's matrix give the same as adding one block after the other, and as the problem
// itself.
TEST(OperatorSearch, DoublingEqualsLayerByLayer) {
  std::mt19937 random(17);
  for (int round = 0; round < 100; ++round) {
    RandomProblem r;
    fill(r, random, true);
    r.problem.closed = false;
    const BlockMatrix block = block_matrix(r.problem);
    const std::size_t n = block.layouts.size();
    std::vector<std::int64_t> expected(n * n, kNoCapacity);
    all_plans(r.problem, [&](const OperatorPlan& plan) {
      const auto at = [&](std::int32_t id) {
        return static_cast<std::size_t>(std::find(block.layouts.begin(), block.layouts.end(), id) - block.layouts.begin());
      };
      const std::size_t from = at(r.problem.nodes.front()[static_cast<std::size_t>(plan.options.front())].out);
      const std::size_t to = at(r.problem.nodes.back()[static_cast<std::size_t>(plan.options.back())].out);
      expected[from * n + to] = std::min(expected[from * n + to], plan.time);
    });
    EXPECT_EQ(block.time, expected);
    std::vector<std::int64_t> stack(n, 0);  // least time of the layers so far, by the leaving layout
    for (int layers = 1; layers <= 13; ++layers) {
      std::vector<std::int64_t> next(n, kNoCapacity);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          if (block.time[i * n + j] < kNoCapacity) next[j] = std::min(next[j], stack[i] + block.time[i * n + j]);
      stack = next;
      const std::int64_t least = *std::min_element(stack.begin(), stack.end());
      EXPECT_EQ(stack_blocks(block, layers), least) << round;
      const std::int64_t direct = best_stack(r.problem, layers);
      if (direct < kNoCapacity) {
        EXPECT_EQ(direct, least) << round << ", " << layers << " layers";
      }
    }
  }
}

// With any budget, the plan is real and the bound holds.
TEST(OperatorSearch, SaysWhatTheBudgetLeftOpen) {
  std::mt19937 random(19);
  int open = 0;
  for (int round = 0; round < 200; ++round) {
    RandomProblem r;
    fill(r, random, true);
    const auto all = brute_force(r.problem, kNoCapacity);
    if (all.empty()) continue;
    OperatorRequest request;
    request.budget = std::uniform_int_distribution<std::int64_t>(0, 300)(random);
    const OperatorAnswer answer = best_operators(r.problem, request);
    open += !answer.certified;
    EXPECT_LE(answer.lower_bound, all.front().first);
    if (!answer.plans.empty()) {
      EXPECT_EQ(evaluate_operators(r.problem, answer.plans.front().options).time, answer.plans.front().time);
    }
  }
  EXPECT_GT(open, 20);
}

}  // namespace
}  // namespace espalier::solve::operator_search_test
