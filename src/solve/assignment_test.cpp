// SPDX-License-Identifier: Apache-2.0
#include "solve/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace espalier::solve::assignment_test {
namespace {

std::int64_t sum_of(const std::vector<std::vector<std::int64_t>>& costs, const std::vector<std::size_t>& columns) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) sum += costs[i][columns[i]];
  return sum;
}

// By hand, 1 + 2 + 1 = 4 is the least of the six sums 9, 11, 8, 12, 4, 10.
TEST(Assignment, ByHand) {
  const std::vector<std::vector<std::int64_t>> costs{{4, 1, 3}, {2, 0, 5}, {3, 2, 1}};
  const std::vector<std::size_t> columns = assignment(costs);
  EXPECT_EQ(columns, (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_EQ(sum_of(costs, columns), 4);
}

TEST(Assignment, NothingAndOne) {
  EXPECT_TRUE(assignment({}).empty());
  EXPECT_EQ(assignment({{7}}), std::vector<std::size_t>{0});
}

TEST(Assignment, EqualsAllPermutations) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random() % 6;
    std::vector<std::vector<std::int64_t>> costs(n, std::vector<std::int64_t>(n));
    for (auto& row : costs)
      for (std::int64_t& cost : row) cost = static_cast<std::int64_t>(random() % 20) - 5;
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::int64_t least = sum_of(costs, order);
    do least = std::min(least, sum_of(costs, order));
    while (std::next_permutation(order.begin(), order.end()));
    const std::vector<std::size_t> found = assignment(costs);
    std::vector<std::size_t> sorted = found;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sorted[i], i);
    EXPECT_EQ(sum_of(costs, found), least);
  }
}

}  // namespace
}  // namespace espalier::solve::assignment_test
