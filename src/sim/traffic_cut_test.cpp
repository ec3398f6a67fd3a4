// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic_cut.h"

#include <gtest/gtest.h>

namespace espalier::sim {
namespace {

/// Returns a piece of 100 ns from 50 ns on, of which 20 ns are latency; 800 bytes; due at 200 ns, with the compute
/// that hides it.
Pieces one() {
  TrafficPiece piece;
  piece.offset_ns = 50;
  piece.due_ns = 200;
  piece.activity.duration_ns = 100;
  piece.activity.fixed_ns = 20;
  piece.activity.flows = {{{}, 800}};
  return {piece};
}

TEST(TrafficCut, WholePiecesMove) {
  const Pieces cut = cut_pieces(one(), 40, 300);
  ASSERT_EQ(cut.size(), 1U);
  EXPECT_EQ(cut[0].offset_ns, 10);
  EXPECT_EQ(cut[0].due_ns, 160);
  EXPECT_EQ(cut[0].activity.duration_ns, 100);
  EXPECT_EQ(cut[0].activity.fixed_ns, 20);
  EXPECT_EQ(cut[0].activity.flows[0].bytes, 800);
}

// [50, 150) is cut at 75. The part is a quarter: 25 ns, a quarter of the 80 ns that stretch, and 200 bytes. It is due
// at the end of its bucket.
TEST(TrafficCut, PartsTakeTheirShare) {
  const Pieces first = cut_pieces(one(), 0, 75);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].offset_ns, 50);
  EXPECT_EQ(first[0].due_ns, 75);
  EXPECT_EQ(first[0].activity.duration_ns, 25);
  EXPECT_EQ(first[0].activity.fixed_ns, 5);
  EXPECT_EQ(first[0].activity.flows[0].bytes, 200);
  const Pieces second = cut_pieces(one(), 75, 400);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].offset_ns, 0);
  EXPECT_EQ(second[0].due_ns, 125);
  EXPECT_EQ(second[0].activity.duration_ns, 75);
  EXPECT_EQ(second[0].activity.fixed_ns, 15);
  EXPECT_EQ(second[0].activity.flows[0].bytes, 600);
}

TEST(TrafficCut, NothingOfAPieceIsNoPiece) {
  EXPECT_TRUE(cut_pieces(one(), 0, 50).empty());
  EXPECT_TRUE(cut_pieces(one(), 150, 200).empty());
  EXPECT_TRUE(cut_pieces(one(), 80, 80).empty());
}

}  // namespace
}  // namespace espalier::sim
