// SPDX-License-Identifier: Apache-2.0
// Tests the distribution of weights by hand on small layers; then that nothing is lost or duplicated under many
// strategies (test_problem.h).
#include "plan/ownership.h"

#include <gtest/gtest.h>

#include "plan/engine.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::ownership_test {
namespace {

const EngineModel& generic() { return *find_engine("generic"); }

/// Returns all ranks of one stage of the whole toy model.
Holding stage_of(const Strategy& s, const Model& model) {
  Holding h;
  h.last_layer = static_cast<std::int32_t>(model.layers.size()) - 1;
  h.strategy = s;
  for (std::int64_t r = 0; r < s.devices(); ++r) h.devices.push_back(r);
  return h;
}

Strategy strategy(std::int32_t tp, std::int32_t dp, ZeroStage zero = ZeroStage::none, std::int32_t shard = 1) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.zero = zero;
  s.shard = shard;
  return s;
}

TEST(Intervals, SetsOfElements) {
  const Intervals a{{0, 10}, {20, 30}}, b{{5, 22}, {25, 26}};
  EXPECT_EQ(elements_of(a), 20);
  EXPECT_EQ(intersection(a, b), (Intervals{{5, 10}, {20, 22}, {25, 26}}));
  EXPECT_EQ(difference(a, b), (Intervals{{0, 5}, {22, 25}, {26, 30}}));
  EXPECT_EQ(difference(a, {}), a);
  EXPECT_EQ(difference({}, a), Intervals{});
}

// The block has 2 heads, 1 key/value head of 4 features and ffn 16: h = 8, qkv 8 × (8 + 8) = 128 (queries 64, keys
// and values 64), out 64, up 128, down 128.
TEST(Ownership, TensorParallelByHand) {
  const Model model = decoder({1, 2, 1, 4, 16, 10, 0, 0});
  const LayerKind& block = model.kinds[1];
  EXPECT_EQ(numbered_elements(block), 128 + 64 + 128 + 128);
  const Holding two = stage_of(strategy(2, 1), model);
  // Rank 1 of 2 has queries 32 … 64, all of the one key/value head 64 … 128, and the second halves of out (128 + 32 …
  // 192), up and down.
  EXPECT_EQ(share_of(two, model, block, generic(), 1).held, (Intervals{{32, 128}, {160, 192}, {256, 320}, {384, 448}}));
  EXPECT_EQ(share_of(two, model, block, generic(), 0).held, (Intervals{{0, 32}, {64, 160}, {192, 256}, {320, 384}}));
}

// ZeRO over 2 ranks divides 448 elements into 224 each, in the order of the layer.
TEST(Ownership, ZeroByHand) {
  const Model model = decoder({1, 2, 1, 4, 16, 10, 0, 0});
  const Holding h = stage_of(strategy(1, 2, ZeroStage::optimizer, 2), model);
  const RankShare first = share_of(h, model, model.kinds[1], generic(), 0);
  const RankShare second = share_of(h, model, model.kinds[1], generic(), 1);
  EXPECT_EQ(first.held, (Intervals{{0, 448}}));
  EXPECT_EQ(first.shard, (Intervals{{0, 224}}));
  EXPECT_EQ(second.shard, (Intervals{{224, 448}}));
  EXPECT_EQ(held_of(first, StateKind::parameters, ZeroStage::optimizer), first.held);
  EXPECT_EQ(held_of(first, StateKind::optimizer, ZeroStage::optimizer), first.shard);
}

// Shares of 3 : 1 divide 448 elements into 336 and 112.
TEST(Ownership, UnequalStateShares) {
  const Model model = decoder({1, 2, 1, 4, 16, 10, 0, 0});
  Holding h = stage_of(strategy(1, 2, ZeroStage::optimizer, 2), model);
  h.state_shares = {3, 1};
  EXPECT_EQ(share_of(h, model, model.kinds[1], generic(), 0).shard, (Intervals{{0, 336}}));
  EXPECT_EQ(share_of(h, model, model.kinds[1], generic(), 1).shard, (Intervals{{336, 448}}));
}

// With 4 experts of up 8 × 4 and down 4 × 8 over ep 2, rank 1 has experts 2 and 3 of each.
TEST(Ownership, Experts) {
  const Model model = decoder({1, 2, 2, 4, 16, 10, 4, 4});
  Strategy s = strategy(1, 2);
  s.ep = 2;
  const Holding h = stage_of(s, model);
  const std::int64_t dense = 8 * 24 + 64 + 128 + 128;
  const RankShare share = share_of(h, model, model.kinds[1], generic(), 1);
  EXPECT_EQ(share.held, (Intervals{{0, dense}, {dense + 64, dense + 128}, {dense + 192, dense + 256}}));
}

// Engine generic pads 10 rows over tp 4 to a multiple of tp: 12 rows, 3 per rank. The last rank has one row, and
// two that pad.
TEST(Ownership, PaddedVocabulary) {
  const Model model = decoder({1, 4, 4, 2, 16, 10, 0, 0});
  const Holding h = stage_of(strategy(4, 1), model);
  ASSERT_EQ(generic().memory.vocabulary_multiple, 1);
  const RankShare last = share_of(h, model, model.kinds[0], generic(), 3);
  EXPECT_EQ(last.held, (Intervals{{72, 80}}));
  EXPECT_EQ(last.padding, 16);
}

/// Counts how often each element of the layer is held. It is the same number for all elements if no key/value head is
/// held by several ranks of a tensor group.
std::vector<int> counts(const Holding& h, const Model& model, const LayerKind& kind, StateKind state) {
  std::vector<int> out(static_cast<std::size_t>(numbered_elements(kind)));
  for (std::size_t r = 0; r < h.devices.size(); ++r) {
    const RankShare share = share_of(h, model, kind, generic(), static_cast<std::int64_t>(r));
    for (const Interval& piece : held_of(share, state, h.strategy.zero))
      for (std::int64_t x = piece.first; x < piece.last; ++x) ++out[static_cast<std::size_t>(x)];
  }
  return out;
}

TEST(Ownership, EveryByteHasAnOwnerAndShardsDoNotOverlap) {
  const Model model = decoder({1, 8, 4, 4, 40, 30, 8, 12});
  int checked = 0;
  for (const std::int32_t tp : {1, 2, 4})
    for (const std::int32_t cp : {1, 2})
      for (const std::int32_t dp : {1, 2, 3, 4})
        for (const std::int32_t ep : {1, 2, 4})
          for (const RankOrder order : {RankOrder::tp_cp_dp_pp, RankOrder::tp_dp_cp_pp})
            for (const ZeroStage zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters}) {
              Strategy s = strategy(tp, dp, zero);
              s.cp = cp;
              s.ep = ep;
              s.order = order;
              if (tp * cp * dp % ep != 0) continue;
              s.shard = zero == ZeroStage::none ? 1 : dp * cp;
              if (zero != ZeroStage::none && s.shard == 1) continue;
              const Holding h = stage_of(s, model);
              for (const LayerKind& kind : model.kinds)
                for (const StateKind state : {StateKind::parameters, StateKind::gradients, StateKind::optimizer}) {
                  const std::vector<int> held = counts(h, model, kind, state);
                  for (const int times : held) ASSERT_GE(times, 1);
                }
              // No element of a split linear is held more often than there are shard groups that hold it.
              const std::vector<int> states = counts(h, model, model.kinds[1], StateKind::optimizer);
              const int copies = s.zero == ZeroStage::none ? dp * cp : 1;
              for (std::size_t x = 0; x < 8 * 4 * 64; ++x) ASSERT_EQ(states[x], copies) << x;
              ++checked;
            }
  EXPECT_GT(checked, 200);
}

TEST(Ownership, StagesAndCopiesOfTheTable) {
  Model model = decoder({2, 2, 2, 4, 16, 10, 0, 0});
  model.tied_embeddings = true;
  model.kinds[2].operators[0].parameters = 0;
  const Cluster c = cluster(1, 2);
  Schedule schedule;
  schedule.stages = 2;
  schedule.microbatches = 4;
  const Plan plan = make_uniform_plan(model, c, training(8, 4), "generic", strategy(1, 1), schedule, SplitPolicy::balanced);
  const auto holdings = holdings_of(plan, model);
  ASSERT_TRUE(holdings.ok());
  ASSERT_EQ(holdings->size(), 3u);
  const Holding& copy = holdings->back();
  EXPECT_TRUE(copy.table_copy);
  EXPECT_EQ(copy.stage, 1);
  EXPECT_EQ(copy.devices, std::vector<std::int64_t>{1});
  EXPECT_EQ(share_of(copy, model, model.kinds[0], generic(), 0).held, (Intervals{{0, 80}}));
}

}  // namespace
}  // namespace espalier::plan_test::ownership_test
