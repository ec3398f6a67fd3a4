// SPDX-License-Identifier: Apache-2.0
#include "search/pipeline_splits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "search/budgets.h"

namespace espalier::search::pipeline_splits_test {
namespace {

/// Holds by group the least times of 1, 2, … samples.
using Times = std::vector<std::vector<std::int64_t>>;

/// Returns the samples that all groups train in a time.
std::int64_t trained(const Times& times, std::int64_t ns) {
  std::int64_t sum = 0;
  for (const std::vector<std::int64_t>& group : times)
    sum += std::count_if(group.begin(), group.end(), [&](std::int64_t t) { return t <= ns; });
  return sum;
}

std::int64_t least_of(const Times& times, std::int64_t batch, std::int64_t low, std::int64_t high) {
  return least_time(low, high, batch, [&](std::int64_t ns) { return trained(times, ns); });
}

/// Two groups have equal speed and a batch of 8: at 39 each trains three samples.
TEST(PipelineSplits, SmallestExample) {
  const Times equal{{10, 20, 30, 40, 50, 60, 70}, {10, 20, 30, 40, 50, 60, 70}};
  EXPECT_EQ(least_of(equal, 8, 0, 100), 40);
  EXPECT_EQ(least_of(equal, 8, 0, 40), 40);  // nothing is below the known best
  EXPECT_EQ(least_of(equal, 8, 0, 35), 35);
  EXPECT_EQ(least_of(equal, 8, 60, 100), 60);  // the other bound is higher
}

/// The fast group trains seven samples in 70, the slow one takes 75 for its first.
TEST(PipelineSplits, TheSlowGroupTakesWhatIsLeft) {
  EXPECT_EQ(least_of({{10, 20, 30, 40, 50, 60, 70}, {75, 150}}, 8, 0, 1000), 75);
}

TEST(PipelineSplits, WithoutEnoughSamplesTheBestStands) { EXPECT_EQ(least_of({{10}, {10}}, 8, 0, 1000), 1000); }

/// A large range is halved only a few times: the bound is below the least time by less than a part of the range.
TEST(PipelineSplits, ALargeRangeIsHalvedAFewTimes) {
  const std::int64_t found = least_of({{1'000'000}, {2'000'000}}, 2, 0, 1'000'000'000);
  EXPECT_LE(found, 2'000'000);
  EXPECT_GE(found, 2'000'000 - 1'000'000'000 / (1 << kSplitRounds));
}

TEST(PipelineSplits, EqualsTheBestOfAllSplits) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 500; ++n) {
    constexpr std::size_t kBatch = 16;
    Times all(2);  // for 1 … 15 samples
    for (std::vector<std::int64_t>& group : all) {
      std::int64_t ns = pick(1, 20);
      for (std::size_t samples = 1; samples < kBatch; ++samples) group.push_back(ns += pick(0, 9));
    }
    std::int64_t best = INT64_MAX;
    for (std::size_t own = 1; own < kBatch; ++own) best = std::min(best, std::max(all[0][own - 1], all[1][kBatch - own - 1]));
    EXPECT_EQ(least_of(all, kBatch, 0, 256), best);
  }
}

}  // namespace
}  // namespace espalier::search::pipeline_splits_test
