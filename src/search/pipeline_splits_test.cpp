// SPDX-License-Identifier: Apache-2.0
#include "search/pipeline_splits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace espalier::search {
namespace {

/// Parts that every divisor of the batch divides or is a multiple of.
TEST(PipelineSplits, StepsOfABatch) {
  EXPECT_EQ(split_step(1024), 32);
  EXPECT_EQ(split_step(4), 1);
  EXPECT_EQ(split_step(8), 1);
  EXPECT_EQ(split_step(6), 0);   // 2 and 3
  EXPECT_EQ(split_step(96), 0);  // 32 and 48
  EXPECT_EQ(split_step(1), 0);
  EXPECT_EQ(split_step(7), 0);
}

/// Two groups of equal speed, a batch of 8 in steps of 2: below 20 either comes to at most three samples.
TEST(PipelineSplits, SmallestExample) {
  const std::vector<std::vector<std::int64_t>> equal{{10, 20, 30}, {10, 20, 30}};
  EXPECT_EQ(splits_bound_ns(equal, 2, 8, 100), 20);
  EXPECT_EQ(splits_bound_ns(equal, 2, 8, 15), 15);  // nothing is below the best that is known
}

/// The fast group comes to seven samples in 30, the slow one to one in no time at all.
TEST(PipelineSplits, TheSlowGroupTakesWhatIsLeft) {
  const std::vector<std::vector<std::int64_t>> one_slow{{10, 20, 30}, {100, 200, 300}};
  EXPECT_EQ(splits_bound_ns(one_slow, 2, 8, 1000), 30);
}

/// A group that no plan fits takes less than a step.
TEST(PipelineSplits, AGroupWithoutPlans) {
  const std::vector<std::vector<std::int64_t>> none{{10, 20, 30}, {1000, 1000, 1000}};
  EXPECT_EQ(splits_bound_ns(none, 2, 8, 1000), 30);
  const std::vector<std::vector<std::int64_t>> neither{{1000, 1000, 1000}, {1000, 1000, 1000}};
  EXPECT_EQ(splits_bound_ns(neither, 2, 8, 1000), 1000);
}

/// Times need not rise from step to step where fewer plans have so many samples: what counts is the largest number that is reached in time.
TEST(PipelineSplits, ALargerNumberMayBeReachedSooner) {
  const std::vector<std::vector<std::int64_t>> dip{{10, 50, 30}, {10, 50, 30}};
  EXPECT_EQ(splits_bound_ns(dip, 2, 8, 100), 30);
}

/// Of random groups whose times rise with their samples: no split ends before the bound, and with steps of one sample some split ends at it.
TEST(PipelineSplits, NoSplitIsBelow) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 500; ++n) {
    constexpr std::int64_t kBatch = 16;
    std::vector<std::vector<std::int64_t>> all(2);  // of 1 … 15 samples
    for (std::vector<std::int64_t>& group : all) {
      std::int64_t ns = pick(1, 20);
      for (std::int64_t samples = 1; samples < kBatch; ++samples) group.push_back(ns += pick(0, 9));
    }
    std::int64_t best = INT64_MAX;
    for (std::size_t own = 1; own < kBatch; ++own) best = std::min(best, std::max(all[0][own - 1], all[1][kBatch - own - 1]));
    for (const std::int64_t step : {1, 2, 4, 8}) {
      std::vector<std::vector<std::int64_t>> least(2);
      for (std::size_t g = 0; g < 2; ++g)
        for (std::int64_t samples = step; samples < kBatch; samples += step)
          least[g].push_back(all[g][static_cast<std::size_t>(samples) - 1]);
      const std::int64_t bound = splits_bound_ns(least, step, kBatch, 10'000);
      EXPECT_LE(bound, best) << "steps of " << step;
      if (step == 1) {
        EXPECT_EQ(bound, best);
      }
    }
  }
}

}  // namespace
}  // namespace espalier::search
