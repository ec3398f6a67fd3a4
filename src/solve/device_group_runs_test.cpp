// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_runs.h"

#include <gtest/gtest.h>

namespace espalier::solve::device_groups {
namespace {

// The layers are an embedding, three blocks and a head: 0 1 1 1 2. Two blocks are the same run wherever they begin;
// with the embedding they are another run.
TEST(LayerRuns, SmallestExample) {
  const LayerRuns runs({0, 1, 1, 1, 2});
  EXPECT_EQ(runs.of(1, 3), runs.of(2, 4));
  EXPECT_NE(runs.of(0, 2), runs.of(1, 3));
  EXPECT_NE(runs.of(1, 3), runs.of(1, 4));
  // With the embedding; blocks alone; blocks and the head; the head alone.
  EXPECT_EQ(runs.count(), 5U + 3U + 3U + 1U);
}

TEST(LayerRuns, OrderCounts) {
  const LayerRuns runs({0, 1, 0});
  EXPECT_NE(runs.of(0, 2), runs.of(1, 3));
  EXPECT_EQ(runs.of(0, 1), runs.of(2, 3));
}

// Each run has a place with its types, and the run without its last layer comes before it.
TEST(LayerRuns, KnowTheirPlaces) {
  const std::vector<std::int32_t> types{0, 1, 1, 2, 1, 1, 2, 2, 1, 3};
  const LayerRuns runs(types);
  for (std::size_t r = 0; r < runs.count(); ++r) {
    const LayerRuns::Run& run = runs.all()[r];
    EXPECT_EQ(runs.of(run.begin, run.end), static_cast<std::int32_t>(r));
    EXPECT_EQ(run.type, types[static_cast<std::size_t>(run.end) - 1]);
    EXPECT_EQ(run.shorter, run.end - run.begin == 1 ? -1 : runs.of(run.begin, run.end - 1));
    EXPECT_LT(run.shorter, static_cast<std::int32_t>(r));
  }
}

}  // namespace
}  // namespace espalier::solve::device_groups
