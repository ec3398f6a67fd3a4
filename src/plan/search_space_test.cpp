// SPDX-License-Identifier: Apache-2.0
#include "espalier/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/invariant.h"
#include "plan/dimension.h"

namespace espalier {
namespace {

using testing::ElementsAre;

TEST(SearchSpace, ValuesAreCountsFlagsOrMembersOfAnEnumeration) {
  SearchSpace space;
  space.fix(Dimension::schedule, ScheduleKind::zb_v);
  space.allow(Dimension::tp, {1, 2, 4});
  space.allow(Dimension::overlap_p2p, {true});
  space.forbid(Dimension::recompute, {RecomputeKind::full});
  space.limit(Dimension::pp, 8);
  EXPECT_TRUE(space.admits(Dimension::schedule, ScheduleKind::zb_v));
  EXPECT_FALSE(space.admits(Dimension::schedule, ScheduleKind::one_f_one_b));
  EXPECT_TRUE(space.admits(Dimension::tp, 4) && !space.admits(Dimension::tp, 8));
  EXPECT_TRUE(space.admits(Dimension::overlap_p2p, true) && !space.admits(Dimension::overlap_p2p, false));
  EXPECT_TRUE(space.admits(Dimension::recompute, RecomputeKind::none));
  EXPECT_FALSE(space.admits(Dimension::recompute, RecomputeKind::full));
  EXPECT_TRUE(space.admits(Dimension::pp, 8) && !space.admits(Dimension::pp, 9));
  EXPECT_TRUE(space.restricts(Dimension::pp) && !space.restricts(Dimension::cp));
  EXPECT_TRUE(space.fixed.contains(Dimension::schedule) && !space.fixed.contains(Dimension::tp));
}

TEST(SearchSpace, NumbersOfEnumerationsAreThoseOfTheDimensions) {
  Strategy s;
  Schedule schedule;
  schedule.kind = ScheduleKind::zb_h1;
  s.sp = SequenceParallel::megatron;
  s.zero = ZeroStage::parameters;
  s.order = RankOrder::tp_cp_pp_dp;
  EXPECT_EQ(DimensionValue(schedule.kind).number(), get(Dimension::schedule, s, schedule));
  EXPECT_EQ(DimensionValue(s.sp).number(), get(Dimension::sp, s, schedule));
  EXPECT_EQ(DimensionValue(s.zero).number(), get(Dimension::zero, s, schedule));
  EXPECT_EQ(DimensionValue(s.order).number(), get(Dimension::order, s, schedule));
}

TEST(SearchSpace, DimensionsAreInTheOrderOfTheirNames) {
  SearchSpace space;
  for (const Dimension d : {Dimension::zero, Dimension::tp, Dimension::pp, Dimension::cp_kind}) space.fix(d, 1);
  std::vector<std::string_view> names;
  for (const auto& [dimension, values] : space.allowed) names.push_back(to_string(dimension));
  EXPECT_THAT(names, ElementsAre("cp_kind", "pp", "tp", "zero"));
}

TEST(SearchSpace, AValueOfAnotherDimensionIsABug) {
  SearchSpace space;
  EXPECT_THROW(space.fix(Dimension::tp, ScheduleKind::zb_v), base::InternalError);
}

}  // namespace
}  // namespace espalier
