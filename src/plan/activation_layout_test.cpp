// SPDX-License-Identifier: Apache-2.0
#include "plan/activation_layout.h"

#include <gtest/gtest.h>

#include "plan/test_problem.h"

namespace espalier {
namespace {

using plan_test::spread;

/// Adds context ranks to a strategy.
Strategy context(Strategy s, std::int32_t cp, ContextParallelKind kind = ContextParallelKind::ring) {
  s.cp = cp;
  s.cp_kind = kind;
  return s;
}

using Box = ActivationBox;
using Move = BoxMove;

std::vector<Box> boxes(const Strategy& s, std::int64_t samples, std::int64_t tokens) {
  return boxes_of(s, s.devices(), {samples, {}, tokens, 1}, true);
}

// Four devices hold 4 samples of 8 tokens. Under TP2·DP2, positions 0 and 1 hold samples 0 and 1, and positions 2 and
// 3 the others. Under DP4 each holds one sample. Positions 0 and 1 hold their new samples already, and so do
// positions 2 and 3.
TEST(ActivationLayout, SmallestExample) {
  const auto moves = moves_between(boxes(spread(2, 2), 2, 8), boxes(spread(1, 4), 1, 8));
  const std::vector<Move> expected{
      {0, 0, {{0, 1}, {{0, 8}}}}, {1, 1, {{1, 2}, {{0, 8}}}}, {2, 2, {{2, 3}, {{0, 8}}}}, {3, 3, {{3, 4}, {{0, 8}}}}};
  EXPECT_EQ(moves, expected);
}

// In the other direction, position 0 needs samples 0 and 1 and has 0; sample 1 comes from position 1, its only holder.
TEST(ActivationLayout, FromOneSampleEachToPairs) {
  const auto moves = moves_between(boxes(spread(1, 4), 1, 8), boxes(spread(2, 2), 2, 8));
  ASSERT_EQ(moves.size(), 8u);
  EXPECT_EQ(moves[0], (Move{0, 0, {{0, 1}, {{0, 8}}}}));
  EXPECT_EQ(moves[1], (Move{1, 0, {{1, 2}, {{0, 8}}}}));
}

TEST(ActivationLayout, SequenceParallelSplitsTokens) {
  const auto split = boxes(spread(4, 1, SequenceParallel::megatron), 4, 8);
  EXPECT_EQ(split[3], (Box{{0, 4}, {{6, 8}}}));
  // For DP4, position 3 needs all tokens of sample 3, two of which are its own.
  const auto moves = moves_between(split, boxes(spread(1, 4), 1, 8));
  ASSERT_EQ(moves.size(), 16u);
  EXPECT_EQ(moves[15], (Move{3, 3, {{3, 4}, {{6, 8}}}}));
  EXPECT_EQ(moves[12], (Move{0, 3, {{3, 4}, {{0, 2}}}}));
}

// Under any layouts, every position gets each element of its box once, from a position that holds it.
TEST(ActivationLayout, MovesCoverWhatIsWanted) {
  const std::vector<std::pair<Strategy, std::int64_t>> layouts{{spread(4, 1), 4},
                                                               {spread(2, 2), 2},
                                                               {spread(1, 4), 1},
                                                               {spread(4, 1, SequenceParallel::megatron), 4},
                                                               {spread(2, 2, SequenceParallel::ulysses), 2},
                                                               {context(spread(1, 1), 4), 4},
                                                               {context(spread(2, 1, SequenceParallel::megatron), 2), 4},
                                                               {context(spread(1, 2), 2, ContextParallelKind::all_to_all), 2}};
  for (const auto& [from, had] : layouts)
    for (const auto& [to, wants] : layouts) {
      const auto old_boxes = boxes(from, had, 8), new_boxes = boxes(to, wants, 8);
      std::vector<std::int64_t> got(4, 0);
      for (const Move& move : moves_between(old_boxes, new_boxes)) {
        const Box& source = old_boxes[static_cast<std::size_t>(move.from)];
        EXPECT_TRUE(source.samples.first <= move.box.samples.first && move.box.samples.last <= source.samples.last);
        EXPECT_EQ(overlap(source.tokens, move.box.tokens), move.box.tokens);
        got[static_cast<std::size_t>(move.to)] += move.box.samples.size() * size_of(move.box.tokens);
      }
      for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ(got[p], new_boxes[p].samples.size() * size_of(new_boxes[p].tokens));
    }
}

// With 16 tokens over four ranks of a ring, rank 0 has the first and the last eighth, and rank 3 two neighbouring
// ones. All-to-all gives quarters.
TEST(ActivationLayout, ContextRanks) {
  const auto ring = boxes(context(spread(1, 1), 4), 1, 16);
  EXPECT_EQ(ring[0].tokens, (TokenRuns{{0, 2}, {14, 16}}));
  EXPECT_EQ(ring[2].tokens, (TokenRuns{{4, 6}, {10, 12}}));
  EXPECT_EQ(ring[3].tokens, (TokenRuns{{6, 10}}));
  EXPECT_EQ(boxes(context(spread(1, 1), 4, ContextParallelKind::all_to_all), 1, 16)[1].tokens, (TokenRuns{{4, 8}}));
  // With sequence parallelism the tensor group halves the tokens of a rank of the ring.
  const auto both = boxes(context(spread(2, 1, SequenceParallel::megatron), 2), 1, 16);
  EXPECT_EQ(both[0].tokens, (TokenRuns{{0, 4}}));
  EXPECT_EQ(both[1].tokens, (TokenRuns{{12, 16}}));
  EXPECT_EQ(both[3].tokens, (TokenRuns{{8, 12}}));
}

// If replicas lie inside the context group, position 1 is the other replica; otherwise it is the other context rank.
TEST(ActivationLayout, OrderOfContextAndReplicas) {
  Strategy s = context(spread(1, 2), 2);
  EXPECT_EQ(place_in_stage(s, 1).c, 1);
  EXPECT_EQ(place_in_stage(s, 1).d, 0);
  s.order = RankOrder::tp_dp_cp_pp;
  EXPECT_EQ(place_in_stage(s, 1).c, 0);
  EXPECT_EQ(place_in_stage(s, 1).d, 1);
}

// Unequal replicas take three, one and one of five samples. The next stage has two ranks, with four samples and one.
// Everything is sent, though positions 0 and 1 exist on both sides.
TEST(ActivationLayout, BetweenStagesOfUnequalShares) {
  const auto here = boxes_of(spread(1, 3), 3, {0, {3, 1, 1}, 8, 1}, true);
  EXPECT_EQ(here[1].samples, (Extent{3, 4}));
  const auto there = boxes_of(spread(1, 2), 2, {0, {4, 1}, 8, 1}, true);
  const std::vector<Move> expected{{0, 0, {{0, 3}, {{0, 8}}}}, {1, 0, {{3, 4}, {{0, 8}}}}, {2, 1, {{4, 5}, {{0, 8}}}}};
  EXPECT_EQ(moves_between(here, there, false), expected);
}

// The blocks of four devices leave halves of the tokens (first bit) and of the features (second bit); embedding and
// head are whole.
TEST(ActivationLayout, PartitionedBlocksCutTheStream) {
  Strategy s = spread(4, 1);
  s.partition = BlockPartition("attn.residual M,N");
  const ActivationShape shape{2, {}, 8, 6};
  EXPECT_EQ(box_of(s, 2, shape, true), (Box{{0, 2}, {{4, 8}}, {0, 3}}));
  EXPECT_EQ(box_of(s, 2, shape, false), (Box{{0, 2}, {{0, 8}}, {0, 6}}));
}

}  // namespace
}  // namespace espalier
