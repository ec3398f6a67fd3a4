// SPDX-License-Identifier: Apache-2.0
#include "search/replica_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace espalier::search {
namespace {

/// With speeds 2:1, nine samples are dealt as 6 and 3.
TEST(ReplicaLevels, BySpeed) {
  const auto by_speed = [](std::vector<double> seconds) {
    return [seconds = std::move(seconds)](std::size_t g, std::int64_t level) { return seconds[g] * static_cast<double>(level); };
  };
  EXPECT_EQ(soonest_levels({1, 1}, 9, by_speed({1, 2})), (Levels{6, 3}));
  EXPECT_EQ(soonest_levels({1, 1, 1}, 9, by_speed({1, 1, 1})), (Levels{3, 3, 3}));
  EXPECT_EQ(soonest_levels({1, 1}, 9, by_speed({1, 1000})), (Levels{8, 1}));  // each has one
  EXPECT_EQ(soonest_levels({4, 2}, 10, by_speed({1, 2})), (Levels{2, 1}));
}

/// Four and two replicas take ten samples: 4·2 + 2·1 hold them, and so do 4·1 + 2·3. None of these levels is too
/// high.
TEST(ReplicaLevels, LowestOnes) {
  const auto all = lowest_levels({4, 2}, 10, {9, 9}, 100);
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, (std::vector<Levels>{{1, 3}, {2, 1}}));
  EXPECT_EQ(*lowest_levels({4, 2}, 10, {1, 9}, 100), (std::vector<Levels>{{1, 3}}));
  EXPECT_FALSE(lowest_levels({4, 2}, 10, {9, 9}, 1));
  EXPECT_EQ(dealt_at({4, 2}, {1, 3}, 10), (std::vector<std::int64_t>{1, 1, 1, 1, 3, 3}));
  EXPECT_EQ(dealt_at({4, 2}, {2, 1}, 9), (std::vector<std::int64_t>{2, 2, 2, 1, 1, 1}));
}

/// The levels of every deal are at or above some lowest ones, and lowest levels can be dealt. The soonest of them end
/// as soon as any.
TEST(ReplicaLevels, EveryDealIsAboveOneOfThem) {
  std::mt19937 random(2);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 200; ++n) {
    const std::vector<std::int64_t> replicas{pick(1, 4), pick(1, 3), pick(1, 2)};
    const std::int64_t least = replicas[0] + replicas[1] + replicas[2], samples = least + pick(0, 9);
    const std::vector<double> seconds{static_cast<double>(pick(1, 9)), static_cast<double>(pick(1, 9)),
                                      static_cast<double>(pick(1, 9))};
    const auto lowest = lowest_levels(replicas, samples, {samples, samples, samples}, 10'000);
    ASSERT_TRUE(lowest);
    for (const Levels& levels : *lowest) {
      const std::vector<std::int64_t> dealt = dealt_at(replicas, levels, samples);
      EXPECT_EQ(std::accumulate(dealt.begin(), dealt.end(), std::int64_t{0}), samples);
      EXPECT_EQ(*std::max_element(dealt.begin(), dealt.begin() + replicas[0]), levels[0]);
    }
    const auto end = [&](const Levels& levels) {
      double last = 0;
      for (std::size_t g = 0; g < 3; ++g) last = std::max(last, seconds[g] * static_cast<double>(levels[g]));
      return last;
    };
    double soonest = 1e9;
    // The samples dealt at given levels lie between one replica of each group at its level and all replicas at their
    // levels.
    for (std::int64_t a = 1; a <= samples; ++a)
      for (std::int64_t b = 1; b <= samples; ++b)
        for (std::int64_t c = 1; c <= samples; ++c) {
          const std::int64_t most = a * replicas[0] + b * replicas[1] + c * replicas[2];
          if (most < samples || a - 1 + b - 1 + c - 1 + least > samples) continue;
          soonest = std::min(soonest, end({a, b, c}));
          EXPECT_TRUE(
              std::any_of(lowest->begin(), lowest->end(), [&](const Levels& l) { return l[0] <= a && l[1] <= b && l[2] <= c; }));
        }
    const Levels found = soonest_levels(
        replicas, samples, [&](std::size_t g, std::int64_t level) { return seconds[g] * static_cast<double>(level); });
    EXPECT_EQ(end(found), soonest);
    EXPECT_EQ(std::count(lowest->begin(), lowest->end(), found), 1);
  }
}

/// One replica holds half of an equal part, so the others hold 1.25 each. Then one replica is roomy, and no other
/// holds more than it can.
TEST(MostEvenParts, WhoHasRoomHoldsWhatOthersCannot) {
  EXPECT_EQ(most_even_parts({9, 0.5, 9}, 0, 1000), (std::vector<std::int64_t>{1250, 500, 1250}));
  EXPECT_EQ(most_even_parts({9, 9}, 0, 1000), (std::vector<std::int64_t>{1000, 1000}));
  EXPECT_EQ(most_even_parts({0.2, 0.5, 9}, 0, 1000), (std::vector<std::int64_t>{200, 500, 2300}));
  EXPECT_EQ(most_even_parts({0.8, 1.2}, 0, 1000), (std::vector<std::int64_t>{800, 1200}));
  EXPECT_TRUE(most_even_parts({0.8, 1.1}, 0, 1000).empty());
  EXPECT_EQ(most_even_parts({0.5, 9}, 0.1, 1000), (std::vector<std::int64_t>{450, 1550}));
}

}  // namespace
}  // namespace espalier::search
