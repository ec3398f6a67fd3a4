// SPDX-License-Identifier: Apache-2.0
#include "search/unequal_replicas.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace espalier::search {
namespace {

/// Speeds 2:1, nine samples: 6 and 3.
TEST(DealToReplicas, BySpeed) {
  EXPECT_EQ(deal_to_replicas({1, 2}, 9), (std::vector<std::int64_t>{6, 3}));
  EXPECT_EQ(deal_to_replicas({1, 1, 1}, 9), (std::vector<std::int64_t>{3, 3, 3}));
  EXPECT_EQ(deal_to_replicas({1, 1000}, 9), (std::vector<std::int64_t>{8, 1}));  // each has one
  EXPECT_TRUE(deal_to_replicas({1, 1}, 1).empty());
}

/// No deal of few samples to three replicas ends sooner.
TEST(DealToReplicas, EqualsEveryDeal) {
  std::mt19937 random(2);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 300; ++n) {
    const std::vector<double> seconds{static_cast<double>(pick(1, 9)), static_cast<double>(pick(1, 9)),
                                      static_cast<double>(pick(1, 9))};
    const std::int64_t samples = pick(3, 20);
    const auto end = [&](const std::vector<std::int64_t>& dealt) {
      double last = 0;
      for (std::size_t r = 0; r < 3; ++r) last = std::max(last, seconds[r] * static_cast<double>(dealt[r]));
      return last;
    };
    double best = 1e9;
    for (std::int64_t a = 1; a < samples; ++a)
      for (std::int64_t b = 1; a + b < samples; ++b) best = std::min(best, end({a, b, samples - a - b}));
    const std::vector<std::int64_t> dealt = deal_to_replicas(seconds, samples);
    EXPECT_EQ(std::accumulate(dealt.begin(), dealt.end(), std::int64_t{0}), samples);
    EXPECT_EQ(end(dealt), best);
  }
}

}  // namespace
}  // namespace espalier::search
