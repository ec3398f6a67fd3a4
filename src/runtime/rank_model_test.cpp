// SPDX-License-Identifier: Apache-2.0
// Tests what a rank holds of a model under a plan: its groups, its states and which elements it counts.
#include "runtime/rank_model.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/invariant.h"
#include "plan/state_units.h"
#include "runtime/rank_builder.h"
#include "runtime/test_rank.h"

namespace espalier::runtime::testing::rank_model_test {
namespace {

using base::InternalError;

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;

// ---- rules of groups ----------------------------------------------------------------------------------------------

// Four ranks and two key/value heads: ranks 0 and 1 hold head 0. With one head all hold it, with four nobody shares.
TEST(RankBuilder, RanksThatShareAKeyHead) {
  const Members tensor{10, 11, 12, 13};
  EXPECT_EQ(sharing_heads(tensor, 2, 0), (Members{10, 11}));
  EXPECT_EQ(sharing_heads(tensor, 2, 3), (Members{12, 13}));
  EXPECT_EQ(sharing_heads(tensor, 1, 2), tensor);
  EXPECT_EQ(sharing_heads(tensor, 4, 2), (Members{12}));
}

// An indicator is a set of bits of the place: bit 0 joins places 2 and 3, both bits join all four.
TEST(RankBuilder, IndicatorsJoinPlaces) {
  const Members tensor{10, 11, 12, 13};
  std::set<std::size_t> sizes;
  for (partition::GroupIndicator indicator = 0; indicator < 4; ++indicator) {
    const Members joined = indicated(tensor, 2, indicator);
    EXPECT_NE(std::find(joined.begin(), joined.end(), 12), joined.end());
    sizes.insert(joined.size());
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{1, 2, 4}));
}

TEST(RankBuilder, PurposesSeparateTheTimesOfTravel) {
  EXPECT_EQ(purpose_of("shard", ZeroStage::none), "shard.data");
  EXPECT_EQ(purpose_of("shard", ZeroStage::optimizer), "shard.data");
  EXPECT_EQ(purpose_of("shard", ZeroStage::gradients), "shard.compute");
  EXPECT_EQ(purpose_of("shard", ZeroStage::parameters), "shard.compute");
}

TEST(RankBuilder, GradientsArePartialUnderSequenceParallelism) {
  EXPECT_FALSE(sums_partial(strategy(2, 1)));
  EXPECT_TRUE(sums_partial(strategy(2, 1, 0, SequenceParallel::megatron)));
  EXPECT_FALSE(sums_partial(strategy(2, 1, 0, SequenceParallel::ulysses)));
}

TEST(RankBuilder, KindsOfLayers) {
  const Model dense = model_of(kQwen3), sparse = model_of(kMixtral);
  EXPECT_EQ(key_heads(dense.layer(1)), 2);
  EXPECT_EQ(key_heads(dense.layer(0)), 0);
  EXPECT_TRUE(has_head_norms(dense.layer(1)));
  EXPECT_FALSE(has_head_norms(sparse.layer(1)));
  EXPECT_TRUE(has_experts(sparse.layer(1)));
  EXPECT_FALSE(has_experts(dense.layer(1)));
  EXPECT_TRUE(is_table(dense.layer(0).operators.front()));
  EXPECT_FALSE(partitions(strategy(2, 1), dense.layer(1)));
}

// ---- groups -------------------------------------------------------------------------------------------------------

TEST(Groups, ARankAloneHasNone) {
  Meeting meeting({});
  Groups groups(meeting, "test");
  groups.make("tensor", {0});
  EXPECT_EQ(groups.find("tensor", {0}), nullptr);
  EXPECT_EQ(groups.find("never made", {0}), nullptr);
  EXPECT_THROW(static_cast<void>(groups.find("tensor", {0, 1})), InternalError);
  EXPECT_TRUE(groups.calls().empty());
}

TEST(Groups, PurposesHaveTheirOwnConnections) {
  as_ranks(2, [](Meeting& meeting) {
    Groups groups(meeting, "test");
    groups.make("a", {0, 1});
    groups.make("b", {0, 1});
    Communicator* a = groups.find("a", {0, 1});
    groups.make("a", {0, 1});  // made already
    EXPECT_EQ(groups.find("a", {0, 1}), a);
    EXPECT_NE(groups.find("b", {0, 1}), a);
    a->all_reduce(tensor({1}, {1}));
    EXPECT_EQ(groups.calls().at("a").collectives, 1);
    EXPECT_EQ(groups.calls().at("b").collectives, 0);
  });
}

TEST(RankView, RanksAreDevicesInAscendingOrder) {
  RankView view;
  view.devices = {3, 5, 9};
  EXPECT_EQ(view.rank_of(3), 0);
  EXPECT_EQ(view.rank_of(9), 2);
  Plan plan;
  view.plan = &plan;
  plan.training.precision = Precision::bf16;
  EXPECT_EQ(view.type(), at::kBFloat16);
  plan.training.precision = Precision::fp32;
  EXPECT_EQ(view.type(), at::kFloat);
}

TEST(RankClassOf, ADeviceOutsideThePlanIsABug) {
  Meeting meeting({});
  const PlannedRank rank(plan_of_one(kLlama), meeting);
  EXPECT_EQ(rank.list().device(), 0);
  EXPECT_THROW(rank_class(rank.program, 1), InternalError);
}

// ---- states -------------------------------------------------------------------------------------------------------

// Without sharding, every layer is one state, settled by its own backward.
TEST(RankModel, OneRankHoldsEveryLayer) {
  Meeting meeting({});
  const PlannedRank rank(plan_of_one(kLlama), meeting);
  const auto states = rank.parts->states();
  ASSERT_EQ(states.size(), 6u);
  std::int64_t elements = 0;
  for (std::size_t l = 0; l < states.size(); ++l) {
    EXPECT_EQ(states[l]->shape().layer, static_cast<std::int32_t>(l));
    EXPECT_EQ(rank.parts->settled_by(static_cast<std::int32_t>(l)), std::vector<State*>{states[l]});
    EXPECT_EQ(rank.parts->state_of(states[l]->shape().unit), states[l]);
    EXPECT_EQ(states[l]->shape().shard_group, nullptr);
    elements += elements_of(states[l]->own());
  }
  EXPECT_EQ(elements, parameter_count(rank.model));
  EXPECT_TRUE(rank.parts->settled_by(6).empty());
  EXPECT_EQ(rank.parts->state_of({7, {{0, 1}}}), nullptr);
  EXPECT_EQ(rank.parts->copied_table(), nullptr);
}

// A tied table is a unit of its own, which also the head reads.
TEST(RankModel, ATiedTableIsAStateOfItsOwn) {
  Meeting meeting({});
  const PlannedRank rank(plan_of_one(kTiedLlama), meeting);
  int tables = 0;
  for (State* state : rank.parts->states()) {
    if (!state->shape().unit.table) continue;
    ++tables;
    EXPECT_EQ(elements_of(state->own()), 97 * 32);
    const auto& of_head = rank.parts->layer(5).states();
    EXPECT_NE(std::find(of_head.begin(), of_head.end(), state), of_head.end());
  }
  EXPECT_EQ(tables, 1);
}

TEST(RankModel, ValuesBeginAsInitialOrAsZeros) {
  Meeting meeting({});
  const PlannedRank begun(plan_of_one(kLlama), meeting), empty(plan_of_one(kLlama), meeting, false);
  const State& state = *begun.parts->states().front();
  EXPECT_FLOAT_EQ(static_cast<float>(list(state.own_values())[5]),
                  initial_value(begun.model, 0, begun.model.layer(0).operators.front(), 5, 5, 1));
  for (const State* of : empty.parts->states())
    for (const double value : list(of->own_values())) ASSERT_EQ(value, 0);
}

/// Whatever the plan, each element of the model is counted by one rank and owned wherever it is held. Squares of
/// gradients and checkpoints rely on it.
void expect_each_element_once(const Plan& plan) {
  std::mutex mutex;
  std::map<std::int32_t, std::vector<int>> counted;
  as_ranks(ranks_of(plan), [&](Meeting& meeting) {
    const PlannedRank rank(plan, meeting);
    const std::lock_guard lock(mutex);
    for (const State* state : rank.parts->states()) {
      const StateShape& shape = state->shape();
      EXPECT_EQ(intersection(shape.held, state->own()), state->own());
      EXPECT_EQ(intersection(state->own(), shape.counted), shape.counted);
      auto& of_layer = counted[shape.layer];
      of_layer.resize(static_cast<std::size_t>(numbered_elements(rank.model.layer(static_cast<std::size_t>(shape.layer)))));
      for (const Interval& piece : shape.counted)
        for (std::int64_t e = piece.first; e < piece.last; ++e) ++of_layer[static_cast<std::size_t>(e)];
    }
  });
  std::int64_t elements = 0;
  for (const auto& [layer, times] : counted) {
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), static_cast<std::ptrdiff_t>(times.size())) << "layer " << layer;
    elements += static_cast<std::int64_t>(times.size());
  }
  EXPECT_EQ(elements, parameter_count(load_model(plan.model_source, "config.json").value()));
}

TEST(RankModel, EachElementIsCountedOnce) {
  const SequenceParallel megatron = SequenceParallel::megatron;
  for (const Strategy& s : {strategy(1, 4), strategy(2, 2), strategy(4, 1, 0, megatron), strategy(1, 4, 1), strategy(2, 2, 3),
                            context(strategy(1, 2, 2), 2), strategy(2, 2, 1, SequenceParallel::ulysses)}) {
    SCOPED_TRACE(std::to_string(s.tp) + " " + std::to_string(s.dp) + " zero " + std::to_string(static_cast<int>(s.zero)));
    expect_each_element_once(plan_of(kLlama, s, schedule(k1f1b, 1)));
  }
  expect_each_element_once(plan_of(kMixtral, experts(strategy(1, 4, 1), 2), schedule(k1f1b, 1)));
  expect_each_element_once(plan_of(kTiedLlama, strategy(2, 1), schedule(k1f1b, 2)));
}

// The first stage has the table; the last has a copy of it, which counts nothing.
TEST(RankModel, CopiesOfTheTableShareAGroup) {
  as_ranks(2, [](Meeting& meeting) {
    const PlannedRank rank(plan_of(kTiedLlama, strategy(1, 1), schedule(k1f1b, 2)), meeting);
    ASSERT_NE(rank.parts->copied_table(), nullptr);
    ASSERT_NE(rank.parts->copies(), nullptr);
    EXPECT_EQ(rank.parts->copies()->size(), 2);
    const State& table = *rank.parts->copied_table();
    EXPECT_EQ(elements_of(table.own()), 97 * 32);
    EXPECT_EQ(elements_of(table.shape().counted), meeting.rank() == 0 ? 97 * 32 : 0);
    EXPECT_EQ(rank.parts->layer(meeting.rank() == 0 ? 0 : 5).states().empty(), false);
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::rank_model_test
