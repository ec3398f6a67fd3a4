// SPDX-License-Identifier: Apache-2.0
#include "runtime/layout.h"

#include <gtest/gtest.h>

namespace espalier::runtime {
namespace {

Strategy spread(std::int32_t tp, std::int32_t dp, SequenceParallel sp = SequenceParallel::none) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.sp = sp;
  return s;
}

std::vector<Box> boxes(const Strategy& s, std::int64_t samples, std::int64_t tokens) {
  std::vector<Box> out;
  for (std::int64_t p = 0; p < std::int64_t{s.tp} * s.dp; ++p) out.push_back(box_of(s, p, samples, tokens));
  return out;
}

// Four devices, 4 samples of 8 tokens. TP2·DP2: positions 0 and 1 hold samples 0 and 1, 2 and 3 the others; DP4: one sample each. Every position
// of DP4 finds its sample at home or not at all: 0 and 1 hold 0 and 1, 2 and 3 hold 2 and 3.
TEST(Layout, SmallestExample) {
  const auto moves = moves_between(boxes(spread(2, 2), 2, 8), boxes(spread(1, 4), 1, 8));
  const std::vector<Move> expected{
      {0, 0, {{0, 1}, {0, 8}}}, {1, 1, {{1, 2}, {0, 8}}}, {2, 2, {{2, 3}, {0, 8}}}, {3, 3, {{3, 4}, {0, 8}}}};
  EXPECT_EQ(moves, expected);
}

// Back: position 0 wants samples 0 and 1 and has 0; 1 comes from position 1, which alone holds it.
TEST(Layout, FromOneSampleEachToPairs) {
  const auto moves = moves_between(boxes(spread(1, 4), 1, 8), boxes(spread(2, 2), 2, 8));
  ASSERT_EQ(moves.size(), 8u);
  EXPECT_EQ(moves[0], (Move{0, 0, {{0, 1}, {0, 8}}}));
  EXPECT_EQ(moves[1], (Move{1, 0, {{1, 2}, {0, 8}}}));
}

TEST(Layout, SequenceParallelSplitsTokens) {
  const auto split = boxes(spread(4, 1, SequenceParallel::megatron), 4, 8);
  EXPECT_EQ(split[3], (Box{{0, 4}, {6, 8}}));
  // To DP4: position 3 wants all tokens of sample 3, two of them are its own.
  const auto moves = moves_between(split, boxes(spread(1, 4), 1, 8));
  ASSERT_EQ(moves.size(), 16u);
  EXPECT_EQ(moves[15], (Move{3, 3, {{3, 4}, {6, 8}}}));
  EXPECT_EQ(moves[12], (Move{0, 3, {{3, 4}, {0, 2}}}));
}

// Whatever the layouts: every position gets each element of its box once, from one that holds it.
TEST(Layout, MovesCoverWhatIsWanted) {
  const std::vector<std::pair<Strategy, std::int64_t>> layouts{{spread(4, 1), 4},
                                                               {spread(2, 2), 2},
                                                               {spread(1, 4), 1},
                                                               {spread(4, 1, SequenceParallel::megatron), 4},
                                                               {spread(2, 2, SequenceParallel::ulysses), 2}};
  for (const auto& [from, had] : layouts)
    for (const auto& [to, wants] : layouts) {
      const auto old_boxes = boxes(from, had, 8), new_boxes = boxes(to, wants, 8);
      std::vector<std::int64_t> got(4, 0);
      for (const Move& move : moves_between(old_boxes, new_boxes)) {
        const Box& source = old_boxes[static_cast<std::size_t>(move.from)];
        EXPECT_TRUE(source.samples.first <= move.box.samples.first && move.box.samples.last <= source.samples.last);
        EXPECT_TRUE(source.tokens.first <= move.box.tokens.first && move.box.tokens.last <= source.tokens.last);
        got[static_cast<std::size_t>(move.to)] += move.box.samples.size() * move.box.tokens.size();
      }
      for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ(got[p], new_boxes[p].samples.size() * new_boxes[p].tokens.size());
    }
}

}  // namespace
}  // namespace espalier::runtime
