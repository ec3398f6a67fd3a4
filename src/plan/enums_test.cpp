// SPDX-License-Identifier: Apache-2.0
// Tests the named values of plans and search spaces, and their predicates.
#include <gtest/gtest.h>

#include <set>

#include "espalier/plan.h"
#include "espalier/search_space.h"

namespace espalier {
namespace {

// Every stage shards what the previous stage shards and adds one more state (Rajbhandari et al. 2020).
TEST(ZeroStage, EachSharesWhatTheOneBeforeSharesAndMore) {
  for (std::int32_t number = 0; number <= 3; ++number) {
    const ZeroStage z{number};
    EXPECT_TRUE(is_stage(z));
    EXPECT_EQ(number_of(z), number);
    EXPECT_EQ(shards_optimizer(z), number >= 1);
    EXPECT_EQ(shards_gradients(z), number >= 2);
    EXPECT_EQ(shards_parameters(z), number >= 3);
  }
  EXPECT_FALSE(is_stage(ZeroStage{4}));
  EXPECT_FALSE(is_stage(ZeroStage{-1}));
}

TEST(SpaceKind, IsWrittenAndReadByItsWord) {
  std::set<std::string_view> words;
  for (const SpaceKind kind : {SpaceKind::uniform, SpaceKind::layerwise, SpaceKind::spatial_temporal, SpaceKind::full}) {
    EXPECT_EQ(space_kind_of(to_string(kind)), kind);
    words.insert(to_string(kind));
  }
  EXPECT_EQ(words.size(), 4U);
  EXPECT_FALSE(space_kind_of("spatial-temporal").has_value());
  EXPECT_FALSE(space_kind_of("").has_value());
}

TEST(SpaceKind, FullHoldsWhatTheOthersHold) {
  EXPECT_FALSE(varies_by_layer(SpaceKind::uniform) || partitions_operators(SpaceKind::uniform));
  EXPECT_TRUE(varies_by_layer(SpaceKind::layerwise) && !partitions_operators(SpaceKind::layerwise));
  EXPECT_TRUE(!varies_by_layer(SpaceKind::spatial_temporal) && partitions_operators(SpaceKind::spatial_temporal));
  EXPECT_TRUE(varies_by_layer(SpaceKind::full) && partitions_operators(SpaceKind::full));
}

TEST(Training, AdaptersAndFrozenPartsFreezeWeights) {
  Training training;
  EXPECT_FALSE(freezes_weights(training));
  training.freeze = {"embedding"};
  EXPECT_TRUE(freezes_weights(training));
  training.freeze = {};
  training.adapter.rank = 8;
  EXPECT_TRUE(freezes_weights(training));
}

}  // namespace
}  // namespace espalier
