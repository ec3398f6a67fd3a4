// SPDX-License-Identifier: Apache-2.0
// A plan has one print in every space; the counts of the layer-wise search rely on that.
#include "search/plan_prints.h"

#include <gtest/gtest.h>

#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/test_problem.h"
#include "search/chunk_bound.h"
#include "search/known_bounds.h"
#include "search/layered_candidate.h"

namespace espalier::search {
namespace {

using plan_test::decoder;
using plan_test::training;

/// Holds eight blocks between embedding and head on two stages.
struct Two {
  Model model = decoder({.blocks = 8, .heads = 4, .kv_heads = 2});
  Configuration flat;
  cost::SplitTable split;
  Two() : split(cost::split_for(model, training(16, 8), *find_engine("generic"), 2)) {
    flat.schedule = {ScheduleKind::one_f_one_b, 2, 1, 4, 2};
    flat.strategy.dp = 1;
  }
  [[nodiscard]] LayeredConfiguration by_layer() const {
    LayeredConfiguration c;
    c.schedule = flat.schedule;
    for (std::int32_t chunk = 0; chunk < split.chunks(); ++chunk)
      c.chunks.push_back({LayerRange{split.first(chunk), split.last(chunk), flat.strategy}});
    return c;
  }
};

TEST(PlanPrints, AUniformPlanAndItsRangesHaveOnePrint) {
  Two p;
  EXPECT_EQ(print_of(p.model, p.flat, p.split), print_of(p.model, p.by_layer()));
  p.flat.strategy.recompute = {RecomputeKind::full, 2};
  EXPECT_EQ(print_of(p.model, p.flat, p.split), print_of(p.model, p.by_layer()));
}

// Two blocks of a chunk are recomputed as one range, or as a range of two that recompute and one of the others.
TEST(PlanPrints, HowARangeIsCutDoesNotMatter) {
  Two p;
  p.flat.strategy.recompute = {RecomputeKind::full, 2};
  LayeredConfiguration cut = p.by_layer();
  const LayerRange whole = cut.chunks[1].front();
  LayerRange rest = whole;
  rest.first = whole.first + 2;
  rest.strategy.recompute = {};
  cut.chunks[1] = {{whole.first, whole.first + 1, whole.strategy}, rest};
  EXPECT_EQ(print_of(p.model, cut), print_of(p.model, p.by_layer()));
}

TEST(PlanPrints, EveryDimensionTells) {
  Two p;
  std::set<std::uint64_t> prints{print_of(p.model, p.flat, p.split)};
  const auto differs = [&](const Configuration& c) { return prints.insert(print_of(p.model, c, p.split)).second; };
  for (std::int32_t Strategy::*degree :
       {&Strategy::tp, &Strategy::cp, &Strategy::ep, &Strategy::etp, &Strategy::dp, &Strategy::shard}) {
    Configuration c = p.flat;
    c.strategy.*degree += 2;
    EXPECT_TRUE(differs(c));
  }
  Configuration sharded = p.flat;
  sharded.strategy.zero = ZeroStage::gradients;
  EXPECT_TRUE(differs(sharded));
  for (bool Overlap::*flag : {&Overlap::grad_reduce, &Overlap::param_gather, &Overlap::p2p, &Overlap::tp}) {
    Configuration c = p.flat;
    c.strategy.overlap.*flag = !(c.strategy.overlap.*flag);
    EXPECT_TRUE(differs(c));
  }
  Configuration schedule = p.flat;
  schedule.schedule.kind = ScheduleKind::zb_h1;
  EXPECT_TRUE(differs(schedule));
  Configuration partition = p.flat;
  partition.strategy.partition = BlockPartition("mlp_in=K");
  EXPECT_TRUE(differs(partition));
  Configuration modules = p.flat;
  modules.strategy.recompute = {RecomputeKind::selective};
  EXPECT_TRUE(differs(modules));
  modules.strategy.recompute.modules = {RecomputeModule::core_attn};
  EXPECT_TRUE(differs(modules));
}

TEST(WithOverlap, OnlyWhereThereIsSomethingToOverlap) {
  const Overlap all{true, true, true, true};
  Strategy alone;
  alone.dp = 1;
  const Overlap nothing = with_overlap(alone, all, false).overlap;
  EXPECT_FALSE(nothing.grad_reduce || nothing.param_gather || nothing.tp);
  EXPECT_TRUE(nothing.p2p);
  Strategy sharded;
  sharded.tp = 2;
  sharded.dp = 4;
  sharded.zero = ZeroStage::optimizer;
  sharded.sp = SequenceParallel::megatron;
  EXPECT_EQ(with_overlap(sharded, all, false).overlap, all);
}

TEST(LayeredConfiguration, NeedsAStrategyForEveryLayer) {
  const Two p;
  std::vector<Strategy> few(p.model.layers.size() - 1);
  EXPECT_THROW((void)layered_configuration(p.model, p.flat.schedule, 2, {0, 5}, few, {}), base::InternalError);
  few.resize(p.model.layers.size());
  const LayeredConfiguration whole = layered_configuration(p.model, p.flat.schedule, 2, {0, 5}, few, {});
  ASSERT_EQ(whole.chunks.size(), 2u);
  EXPECT_EQ(whole.chunks[0].front().first, 0);
  EXPECT_EQ(whole.chunks[1].back().last, static_cast<std::int32_t>(p.model.layers.size()) - 1);
  EXPECT_THROW((void)layered_configuration(p.model, p.flat.schedule, 2, {1, 5}, few, {}), base::InternalError);
}

TEST(LayeredOrder, IsStrictAndBySchedule) {
  const Two p;
  LayeredConfiguration a = p.by_layer();
  LayeredConfiguration b = a;
  EXPECT_FALSE(canonical_less(a, b) || canonical_less(b, a));
  b.chunks[1].back().strategy.zero = ZeroStage::optimizer;
  EXPECT_NE(canonical_less(a, b), canonical_less(b, a));
}

TEST(KnownBounds, AreFoundOnceSorted) {
  KnownBounds known;
  EXPECT_EQ(known.find({}), nullptr);
  for (const std::int32_t tp : {4, 1, 2}) {
    Configuration c;
    c.strategy.tp = tp;
    known.nodes.push_back({c, {{c, 10 * tp}}});
  }
  known.sort();
  for (const std::int32_t tp : {1, 2, 4}) {
    Configuration c;
    c.strategy.tp = tp;
    ASSERT_NE(known.find(c), nullptr) << tp;
    EXPECT_EQ(known.find(c)->schedules.front().second, 10 * tp);
  }
  Configuration other;
  other.strategy.tp = 8;
  EXPECT_EQ(known.find(other), nullptr);
}

// With 1F1B on four stages, stage i holds 4 − i passes before its first backward pass; GPipe holds all of them.
TEST(ChunkOrders, PassesHeldTogether) {
  const ChunkOrders one({ScheduleKind::one_f_one_b, 4, 1, 8, 1});
  for (std::int32_t i = 0; i < 4; ++i) EXPECT_EQ(one.held_together(i), 4 - i);
  EXPECT_EQ(one.least_held(), 1);
  EXPECT_EQ(one.most_skipped(), 0);
  EXPECT_EQ(ChunkOrders({ScheduleKind::gpipe, 4, 1, 8, 1}).least_held(), 8);
}

// Two stages have two chunks and two micro-batches: F F of chunk 0, then F F and B B of chunk 1, then B B of chunk 0.
// Two forward and two backward passes surround the window of chunk 1.
TEST(ChunkOrders, StepsAroundAChunk) { EXPECT_EQ(ChunkOrders({ScheduleKind::interleaved, 2, 2, 2, 1}).most_skipped(), 4); }

// One chunk on one stage gives T ≥ m·(f + b) + t.
TEST(ChunkOrders, OneChunkIsItsOwnWork) {
  const auto one = ChunkOrders({ScheduleKind::one_f_one_b, 1, 1, 6, 1}).coefficients(false);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_DOUBLE_EQ(one[0].forward, 6);
  EXPECT_DOUBLE_EQ(one[0].backward, 6);
  EXPECT_DOUBLE_EQ(one[0].tail, 1);
}

}  // namespace
}  // namespace espalier::search
