// SPDX-License-Identifier: Apache-2.0
// Tests parameters in the folders of Hugging Face transformers: which elements a rank hands over, and that saved ones
// are loaded again under another plan.
#include "runtime/weights.h"

#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include "runtime/test_rank.h"

namespace espalier::runtime::testing::weights_test {
namespace {

using ::testing::HasSubstr;

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;

// The own part has elements 0 … 3 and 10, 11; elements 2, 3 and 11 are counted.
TEST(Weights, CountedElementsWithTheirValues) {
  StateShape shape = whole_shape(0);
  shape.layer = 4;
  shape.held = {{0, 4}, {10, 12}};
  shape.counted = {{2, 4}, {11, 12}};
  const State state(shape, {1, 2, 3, 4, 5, 6});
  const CountedPart part = counted_part(state, state.own_values());
  EXPECT_EQ(part.layer, 4);
  EXPECT_EQ(part.elements, (Intervals{{2, 4}, {11, 12}}));
  EXPECT_EQ(part.values, (std::vector<float>{3, 4, 6}));
}

TEST(Weights, ARankThatCountsNothingHandsOverNothing) {
  StateShape shape = whole_shape(2);
  shape.counted = {};
  const State state(shape, {1, 2});
  EXPECT_TRUE(counted_part(state, state.own_values()).elements.empty());
}

/// Element e of layer l has the value l + e/1000.
void number(RankModel& model) {
  for (State* state : model.states()) {
    std::vector<float> values;
    for (const Interval& piece : state->shape().held)
      for (std::int64_t e = piece.first; e < piece.last; ++e)
        values.push_back(static_cast<float>(state->shape().layer) + static_cast<float>(e) / 1000);
    state->restore(values);
  }
}

void expect_numbered(RankModel& model) {
  for (State* state : model.states()) {
    std::vector<double> expected;
    for (const Interval& piece : state->own())
      for (std::int64_t e = piece.first; e < piece.last; ++e)
        expected.push_back(static_cast<double>(state->shape().layer) + static_cast<double>(e) / 1000);
    expect_list(state->own_values().narrow(0, 0, elements_of(state->own())), expected, 1e-4);
  }
}

// Saves under the first plan and loads under the others, which begin with zeros.
TEST(Weights, AnyPlanLoadsWhatAnotherSaved) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("weights");
  const Plan saves = plan_of(kQwen2, strategy(1, 2, 1), schedule(k1f1b, 1));
  as_ranks(2, [&](Meeting& meeting) {
    const PlannedRank rank(saves, meeting);
    number(*rank.parts);
    const Status failed = save_weights(folder, rank.view, *rank.parts, rank.world);
    EXPECT_TRUE(failed.ok()) << failed.error().message();
  });
  for (const Plan& loads : {plan_of_one(kQwen2), plan_of(kQwen2, strategy(2, 1), schedule(k1f1b, 1)),
                            plan_of(kQwen2, strategy(1, 1), schedule(k1f1b, 2))})
    as_ranks(ranks_of(loads), [&](Meeting& meeting) {
      const PlannedRank rank(loads, meeting, false);
      const Status failed = load_weights(folder, rank.view, *rank.parts, rank.world);
      ASSERT_TRUE(failed.ok()) << failed.error().message();
      expect_numbered(*rank.parts);
    });
}

TEST(Weights, FoldersOfOtherModelsAreErrors) {
  const ScratchFolder scratch;
  Meeting meeting({});
  const PlannedRank small(plan_of_one(kQwen2), meeting), other(plan_of_one(kMistral), meeting);
  const Status missing = load_weights(scratch.file("missing"), small.view, *small.parts, nullptr);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message(), HasSubstr("missing"));
  ASSERT_TRUE(save_weights(scratch.file("weights"), other.view, *other.parts, nullptr).ok());
  EXPECT_FALSE(load_weights(scratch.file("weights"), small.view, *small.parts, nullptr).ok());
}

// Rank 0 alone writes; the others learn that it could not.
TEST(Weights, AllRanksLearnThatAFolderCannotBeWritten) {
  const ScratchFolder scratch;
  put_text(scratch.file("weights"), "a file");
  as_ranks(2, [&](Meeting& meeting) {
    const PlannedRank rank(plan_of(kQwen2, strategy(1, 2), schedule(k1f1b, 1)), meeting);
    const Status failed = save_weights(scratch.file("weights"), rank.view, *rank.parts, rank.world);
    ASSERT_FALSE(failed.ok());
    EXPECT_THAT(failed.error().message(), HasSubstr(scratch.file("weights")));
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::weights_test
