// SPDX-License-Identifier: Apache-2.0
// Tests states of one rank and of threads: parts of a list, sums of gradients under every ZeRO stage, and AdamW.
#include "runtime/state.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include <cmath>

#include "base/invariant.h"
#include "runtime/testing.h"

namespace espalier::runtime::testing::state_test {
namespace {

using base::InternalError;

constexpr AdamW kAdam{0.1, 0.9, 0.95, 1e-8, 0.1};

// Five elements 0, 1, 2, 10, 11 over two ranks: parts of three, the last one padded.
TEST(State, EqualPartsArePadded) {
  StateShape shape = whole_shape(0, ZeroStage::optimizer);
  shape.held = {{0, 3}, {10, 12}};
  shape.shards = 2;
  shape.shard = 0;
  const State first(shape, {1, 2, 3, 4, 5});
  shape.shard = 1;
  const State second(shape, {1, 2, 3, 4, 5});
  EXPECT_EQ(first.own(), (Intervals{{0, 3}}));
  EXPECT_EQ(second.own(), (Intervals{{10, 12}}));
  expect_list(first.own_values(), {1, 2, 3});
  expect_list(second.own_values(), {4, 5, 0});
}

// Ten elements with weights 1 and 3 are cut at ⌊10·1/4⌋ = 2.
TEST(State, SharesCutTheListByWeight) {
  StateShape shape = whole_shape(10, ZeroStage::optimizer);
  shape.shards = 2;
  shape.shares = {1, 3};
  shape.shard = 1;
  const State second(shape, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(second.own(), (Intervals{{2, 10}}));
  expect_list(second.own_values(), {2, 3, 4, 5, 6, 7, 8, 9});
  expect_list(second.values({0, 3}), {0, 1, 2});
}

TEST(State, TakesExactlyTheHeldElements) {
  EXPECT_THROW(State(whole_shape(3), {1, 2}), InternalError);
  State state(whole_shape(3), {1, 2, 3});
  EXPECT_THROW(state.restore({1, 2, 3, 4}), InternalError);
  EXPECT_THROW(state.restore_moments({1, 2}, {1, 2, 3}), InternalError);
}

// w = 1 and g = 0.5: m = 0.05, v = 0.0125, m̂ = 0.5, √v̂ = 0.5, so that w becomes 0.99 − 0.1.
// Then g = −1: m = −0.055, v = 0.061875, m̂ = −0.055/0.19, v̂ = 0.061875/0.0975, w = 0.89·0.99 + 0.1·0.36337.
TEST(State, AdamWByHand) {
  State state(whole_shape(1), {1});
  state.gradient({0, 1}).fill_(0.5);
  state.finish_gradients();
  state.update(kAdam, 1, 1);
  expect_list(state.values({0, 1}), {0.89});
  expect_list(state.first_moment(), {0.05});
  expect_list(state.second_moment(), {0.0125});
  expect_list(state.gradient({0, 1}), {0});
  state.gradient({0, 1}).fill_(-1);
  state.finish_gradients();
  state.update(kAdam, 1, 2);
  expect_list(state.first_moment(), {-0.055});
  expect_list(state.second_moment(), {0.061875});
  expect_list(state.values({0, 1}), {0.8811 + 0.1 * (0.055 / 0.19) / std::sqrt(0.061875 / 0.0975)});
}

// A gradient of 2 times 0.25 acts like one of 0.5.
TEST(State, ClippedGradientsAreScaledFirst) {
  State state(whole_shape(1), {1});
  state.gradient({0, 1}).fill_(2);
  state.finish_gradients();
  state.update(kAdam, 0.25, 1);
  expect_list(state.first_moment(), {0.05});
  expect_list(state.second_moment(), {0.0125});
}

TEST(State, AnUpdateNeedsCompleteGradients) {
  State state(whole_shape(1), {1});
  EXPECT_THROW(state.update(kAdam, 1, 1), InternalError);
  state.finish_gradients();
  state.update(kAdam, 1, 1);
  EXPECT_THROW(state.update(kAdam, 1, 2), InternalError);  // gradients are used up
}

// Only elements 1 and 2 are counted: 2² + 3².
TEST(State, SquaresOfCountedElements) {
  StateShape shape = whole_shape(4);
  shape.counted = {{1, 3}};
  State state(shape, {0, 0, 0, 0});
  state.gradient({0, 4}).copy_(tensor({4}, {1, 2, 3, 4}));
  state.finish_gradients();
  EXPECT_DOUBLE_EQ(state.squares(), 13);
}

// Has more elements than are converted to double precision at a time.
TEST(State, SquaresOfALongList) {
  constexpr std::int64_t kElements = 40000;
  State state(whole_shape(kElements), std::vector<float>(kElements));
  state.gradient({0, kElements}).fill_(1);
  state.finish_gradients();
  EXPECT_DOUBLE_EQ(state.squares(), 40000);
}

TEST(State, MicroBatchesAddUpInSegments) {
  State state(whole_shape(4), {0, 0, 0, 0});
  for (int k = 0; k < 3; ++k) {
    state.gradient({1, 2}).add_(tensor({2}, {1, 10}));
    state.micro_batch_done();
  }
  state.finish_gradients();
  expect_list(state.own_gradient(), {0, 3, 30, 0});
}

// With ZeRO 2 the whole list lasts until the end of a micro-batch, its sum until the update.
TEST(State, ZeroTwoKeepsTheSumOfMicroBatches) {
  State state(whole_shape(2, ZeroStage::gradients), {0, 0});
  for (const float g : {1.0F, 4.0F}) {
    state.gradient({0, 2}).add_(tensor({2}, {g, -g}));
    state.micro_batch_done();
  }
  state.micro_batch_done();  // a micro-batch that used nothing of it
  expect_list(state.own_gradient(), {5, -5});
  expect_list(state.gradient({0, 2}), {0, 0});
}

TEST(State, ZeroThreeValuesAreReadableWhileAcquired) {
  State state(whole_shape(2, ZeroStage::parameters), {3, 4});
  EXPECT_THROW(static_cast<void>(state.values({0, 2})), InternalError);
  state.acquire();
  state.acquire();
  state.release();
  expect_list(state.values({0, 2}), {3, 4});
  state.release();
  EXPECT_THROW(static_cast<void>(state.values({0, 2})), InternalError);
}

TEST(State, RestoredValuesAndMomentsAreThoseGiven) {
  State state(whole_shape(2), {1, 2});
  state.restore({5, 6});
  state.restore_moments({0.5, 0.25}, {0.125, 0.0625});
  expect_list(state.values({0, 2}), {5, 6});
  expect_list(state.own_values(), {5, 6});
  expect_list(state.first_moment(), {0.5, 0.25});
  expect_list(state.second_moment(), {0.125, 0.0625});
}

// bf16 has 8 significant bits: 1 + 2⁻¹⁰ reads as 1, but the update begins with the exact value.
TEST(State, LayersReadRoundedValues) {
  const float exact = 1 + 0x1p-10F;
  for (const ZeroStage zero : {ZeroStage::none, ZeroStage::parameters}) {
    StateShape shape = whole_shape(1, zero);
    shape.type = at::kBFloat16;
    State state(shape, {exact});
    state.acquire();
    EXPECT_EQ(state.values({0, 1}).scalar_type(), at::kBFloat16);
    expect_list(state.values({0, 1}), {1}, 0);
    state.release();
    expect_list(state.own_values(), {exact}, 0);
    state.restore({4});
    state.gradient({0, 1}).fill_(1);
    state.micro_batch_done();
    state.finish_gradients();
    state.update({1, 0.9, 0.95, 1e-8, 0}, 1, 1);  // a step of 1
    state.acquire();
    expect_list(state.values({0, 1}), {3}, 1e-2);
    state.release();
  }
}

// ---- groups -------------------------------------------------------------------------------------------------------

/// Rank r has r + 1 times the gradients 1 … 5, three times them in total. The first step of Adam without decay moves
/// each value by the rate, against the sign of its gradient.
void sums_over_two_ranks(Communicator& group, ZeroStage zero) {
  SCOPED_TRACE("zero " + std::to_string(static_cast<int>(zero)));
  const int here = group.rank();
  StateShape shape = whole_shape(5, zero);
  shape.shard_group = &group;
  const bool shards = shards_optimizer(zero);
  shape.shards = shards ? 2 : 1;
  shape.shard = shards ? here : 0;
  State state(shape, {1, 2, 3, 4, 5});
  state.gradient({0, 5}).copy_(tensor({5}, {1, 2, 3, 4, 5}) * (here + 1));
  state.micro_batch_done();
  state.finish_gradients();
  state.finish_gradients();  // a second call changes nothing
  if (!shards)
    expect_list(state.own_gradient(), {3, 6, 9, 12, 15});
  else if (here == 0)
    expect_list(state.own_gradient(), {3, 6, 9});
  else
    expect_list(state.own_gradient(), {12, 15, 0});
  state.update({0.5, 0.9, 0.95, 1e-8, 0}, 1, 1);
  EXPECT_EQ(state.fresh(), !shards || zero == ZeroStage::parameters);
  State::publish({&state});
  EXPECT_TRUE(state.fresh());
  state.acquire();
  expect_list(state.values({0, 5}), {0.5, 1.5, 2.5, 3.5, 4.5});
  state.release();
}

TEST(State, EveryZeroStageUpdatesAlike) {
  as_group(2, [](Communicator& group) {
    for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
      sums_over_two_ranks(group, zero);
  });
}

// Eight elements in parts of two and six.
TEST(State, UnequalPartsAreGatheredAndReduced) {
  as_group(2, [](Communicator& group) {
    for (const ZeroStage zero : {ZeroStage::optimizer, ZeroStage::parameters}) {
      StateShape shape = whole_shape(8, zero);
      shape.shard_group = &group;
      shape.shards = 2;
      shape.shard = group.rank();
      shape.shares = {1, 3};
      State state(shape, {0, 0, 0, 0, 0, 0, 0, 0});
      state.gradient({0, 8}).copy_(tensor({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
      state.micro_batch_done();
      state.finish_gradients();
      if (group.rank() == 0)
        expect_list(state.own_gradient(), {2, 4});
      else
        expect_list(state.own_gradient(), {6, 8, 10, 12, 14, 16});
      state.update({1, 0.9, 0.95, 1e-8, 0}, 1, 1);
      State::publish({&state});
      state.acquire();
      expect_list(state.values({0, 8}), std::vector<double>(8, -1));
      state.release();
    }
  });
}

// Elements 1 and 3 are partial on both ranks; the others are whole on each.
TEST(State, PartialGradientsAreSummedInTheTensorGroup) {
  as_group(2, [](Communicator& group) {
    for (const ZeroStage zero : {ZeroStage::none, ZeroStage::gradients}) {
      StateShape shape = whole_shape(4, zero);
      shape.sums = {{{{1, 1}, {3, 1}}, &group}, {{{0, 1}}, nullptr}};
      State state(shape, {0, 0, 0, 0});
      state.gradient({0, 4}).fill_(group.rank() + 1);
      state.micro_batch_done();
      state.finish_gradients();
      const double own = group.rank() + 1;
      expect_list(state.own_gradient(), {own, 3, own, 3});
    }
  });
}

TEST(State, ReplicasAndCopiesAreSummed) {
  as_group(2, [](Communicator& group) {
    StateShape shape = whole_shape(2);
    shape.replicas = &group;
    State replicated(shape, {0, 0}), copied(whole_shape(2), {0, 0});
    for (State* state : {&replicated, &copied}) state->gradient({0, 2}).fill_(group.rank() + 1);
    State::finish_gradients({&replicated, &copied});
    expect_list(replicated.own_gradient(), {3, 3});
    const double own = group.rank() + 1;
    expect_list(copied.own_gradient(), {own, own});
    copied.sum_over(group);
    expect_list(copied.own_gradient(), {3, 3});
  });
}

// Two lists of one group travel in one message and stay two lists.
TEST(State, StatesOfAGroupTravelTogether) {
  as_group(2, [](Communicator& group) {
    StateShape shape = whole_shape(2, ZeroStage::optimizer);
    shape.shard_group = &group;
    shape.shards = 2;
    shape.shard = group.rank();
    State a(shape, {1, 2}), b(shape, {30, 40});
    a.gradient({0, 2}).copy_(tensor({2}, {1, 2}));
    b.gradient({0, 2}).copy_(tensor({2}, {-3, -4}));
    State::finish_gradients({&a, &b});
    expect_list(a.own_gradient(), {group.rank() == 0 ? 2.0 : 4.0});
    expect_list(b.own_gradient(), {group.rank() == 0 ? -6.0 : -8.0});
    for (State* state : {&a, &b}) state->update({1, 0.9, 0.95, 1e-8, 0}, 1, 1);
    const std::int64_t before = group.calls().collectives;
    State::publish({&a, &b});
    EXPECT_EQ(group.calls().collectives, before + 1);
    expect_list(a.values({0, 2}), {0, 1});
    expect_list(b.values({0, 2}), {31, 41});
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::state_test
