// SPDX-License-Identifier: Apache-2.0
// Checks tiles by hand on a block of two heads: hidden 4, heads of 2 features, ffn 8, four tokens, on four places (r,
// c) = (0,0), (0,1), (1,0), (1,1).
#include "plan/block_tiles.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "espalier/model.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::block_tiles_test {
namespace {

using partition::Phase;

/// Returns qkv 4 → 8 with one key/value head, a core of 2 heads, out 4 → 4 (a row linear with a bias), and the stream.
LayerKind block(std::int32_t kv_heads = 1) {
  LayerKind kind;
  kind.name = "decoder";
  kind.hidden = 4;
  Operator norm;
  norm.kind = OperatorKind::norm;
  norm.name = "norm";
  norm.in = norm.out = 4;
  norm.parameters = norm.parameters_unsplit = 4;
  Operator add;
  add.kind = OperatorKind::residual;
  add.name = "add";
  add.in = add.out = 4;
  Operator out = plan_test::linear("out", 4, 4, TpSplit::row);
  out.parameters += 4;
  out.parameters_unsplit = 4;
  kind.operators = {norm, plan_test::linear("qkv", 4, 4 + 4 * kv_heads, TpSplit::column),
                    plan_test::attention(2, kv_heads, 2, true), out, add};
  return kind;
}

SpreadBlock spread(const LayerKind& kind, const std::string& text, std::int32_t tp) {
  Sequence sequence;
  sequence.main = 4;
  Strategy s;
  s.tp = tp;
  s.partition = BlockPartition(text);
  return spread_block(sequence, *find_engine("generic"), kind, 2, s).value();
}

Extent features(const ActivationTile& tile, std::size_t piece) { return tile.at(piece).features; }

TEST(BlockTiles, InputsOfPAreSkewedAndOutputsAreNot) {
  const LayerKind kind = block(2);
  const SpreadBlock b = spread(kind, "norm R,R; qkv P2; attn.core M,H; out P2; add M,N", 4);
  const auto& shape = b.node(4).shape;  // out: I[M, N], O[M, K]
  const auto read = tiles_of(b, 4, 0, partition::forward_needed(shape, b.sequence(4), 0));
  const auto left = tiles_of(b, 4, 2, partition::forward_held(shape, b.sequence(4)));
  const std::int64_t row[] = {0, 0, 2, 2}, in[] = {0, 2, 2, 0}, out[] = {0, 2, 0, 2};  // N = r + c, K = c
  for (std::size_t place = 0; place < 4; ++place) {
    EXPECT_EQ(read[place].front().tokens, (TokenRuns{{row[place], row[place] + 2}})) << place;
    EXPECT_EQ(features(read[place], 0), (Extent{in[place], in[place] + 2})) << place;
    EXPECT_EQ(left[place].front().tokens, (TokenRuns{{row[place], row[place] + 2}})) << place;
    EXPECT_EQ(features(left[place], 0), (Extent{out[place], out[place] + 2})) << place;
  }
}

TEST(BlockTiles, SlicesOfProjectionsAreGroupsOfHeads) {
  // The packed order is Q0 = [0,2) Q1 = [2,4) K0 = [4,6) V0 = [6,8) K1 = [8,10) V1 = [10,12). There are two groups:
  // (Q0 K0 V0), (Q1 K1 V1).
  const LayerKind two = block(2);
  const SpreadBlock b = spread(two, "norm R; qkv K; attn.core H; out N; add R", 2);
  const auto left = tiles_of(b, 2, 2, partition::forward_held(b.node(2).shape, b.sequence(2)));
  ASSERT_EQ(left[0].size(), 2u);
  EXPECT_EQ(features(left[0], 0), (Extent{0, 2}));
  EXPECT_EQ(features(left[0], 1), (Extent{4, 8}));
  EXPECT_EQ(features(left[1], 0), (Extent{2, 4}));
  EXPECT_EQ(features(left[1], 1), (Extent{8, 12}));
  const auto keys = tiles_of(b, 3, 1, partition::forward_needed(b.node(3).shape, b.sequence(3), 1));
  EXPECT_EQ(features(keys[1], 0), (Extent{8, 10}));
  // Two heads share one key/value head: the slice of one group ends inside it, and both places need its key.
  const LayerKind one = block(1);
  const SpreadBlock shared = spread(one, "norm R; qkv K; attn.core H; out N; add R", 2);
  const auto halves = tiles_of(shared, 2, 2, partition::forward_held(shared.node(2).shape, shared.sequence(2)));
  ASSERT_EQ(halves[0].size(), 1u);
  EXPECT_EQ(features(halves[0], 0), (Extent{0, 4}));
  EXPECT_EQ(features(halves[1], 0), (Extent{4, 8}));
  for (const auto& tile : tiles_of(shared, 3, 1, partition::forward_needed(shared.node(3).shape, shared.sequence(3), 1)))
    EXPECT_EQ(features(tile, 0), (Extent{4, 6}));
}

TEST(BlockTiles, WeightsAreTilesOfTheFirstStepAndNothingIsHeldTwiceUnderP) {
  const LayerKind kind = block(2);  // norm 4 elements, qkv 48 from 4, out: bias 4 from 52, 16 weights from 56
  const SpreadBlock b = spread(kind, "norm R,R; qkv P2; attn.core H,M; out P2; add R,R", 4);
  // Place 1 (r = 0, c = 1) has inputs [2,4) and outputs of the second group: rows 2, 3 and 8 … 11 of four.
  const Intervals held = held_elements(b, kind, 1);
  Intervals qkv;
  for (const std::int64_t row : {2, 3, 8, 9, 10, 11}) qkv.push_back({4 + row * 4 + 2, 4 + row * 4 + 4});
  EXPECT_EQ(intersection(held, {{4, 52}}), qkv);
  EXPECT_EQ(intersection(held, {{52, 56}}), (Intervals{{54, 56}}));            // bias of outputs 2, 3
  EXPECT_EQ(intersection(held, {{56, 72}}), (Intervals{{66, 68}, {70, 72}}));  // inputs 2, 3 × outputs 2, 3
  std::map<std::int64_t, int> times;
  for (int place = 0; place < 4; ++place)
    for (const Interval& piece : held_elements(b, kind, place))
      for (std::int64_t e = piece.first; e < piece.last; ++e) ++times[e];
  ASSERT_EQ(times.size(), 72u);
  for (const auto& [element, n] : times) EXPECT_EQ(n, element < 4 ? 4 : element >= 52 && element < 56 ? 2 : 1) << element;
}

TEST(BlockTiles, OnlyBiasesAndNormsAreSummedUnderP) {
  const LayerKind kind = block(2);
  const SpreadBlock b = spread(kind, "norm M,R; qkv P2; attn.core H,M; out P2; add R,R", 4);
  const auto sums = gradient_sums(b, kind, 1);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0], (GradientSum{{{0, 4}}, 0b10}));    // the norm has seen half of the tokens: sum over d1
  EXPECT_EQ(sums[1], (GradientSum{{{54, 56}}, 0b10}));  // so have the biases: sum over r
  // M splits the queries of keys and values.
  EXPECT_TRUE(summed_indicators(b) == std::vector<partition::GroupIndicator>{0b01});
  const SpreadBlock spatial = spread(kind, "norm R,R; qkv M,K; attn.core H,M; out M,N; add R,R", 4);
  std::map<std::int64_t, partition::GroupIndicator> of;
  for (const GradientSum& sum : gradient_sums(spatial, kind, 0)) of[sum.elements.front().first] = sum.indicator;
  EXPECT_EQ(of, (std::map<std::int64_t, partition::GroupIndicator>{{4, 0b10}, {52, 0b10}, {56, 0b10}}));
}

TEST(BlockTiles, PiecesComeFromTheNearestHolder) {
  const auto tile = [](std::int64_t first, std::int64_t last) { return ActivationTile{{{0, 1}, {{0, 1}}, {first, last}}}; };
  // Places 0, 2 and places 1, 3 hold one half each; all places need everything.
  const auto moves =
      piece_moves({{tile(0, 2), tile(2, 4), tile(0, 2), tile(2, 4)}}, {{tile(0, 4), tile(0, 4), tile(0, 4), tile(0, 4)}});
  ASSERT_EQ(moves.size(), 8u);
  const int from[] = {0, 1, 0, 1, 2, 3, 2, 3};
  for (std::size_t k = 0; k < 8; ++k) {
    EXPECT_EQ(moves[k].to, static_cast<int>(k / 2));
    EXPECT_EQ(moves[k].from, from[k]) << k;
  }
}

TEST(BlockTiles, WhatIsNotTheBlockIsRefused) {
  const LayerKind kind = block(2);
  Sequence sequence;
  sequence.main = 4;
  Strategy s;
  s.tp = 2;
  for (const char* text : {"norm R; qkv K; attn.core H; add R", "norm R; qkv H; attn.core H; out N; add R"}) {
    s.partition = BlockPartition(text);
    EXPECT_FALSE(spread_block(sequence, *find_engine("generic"), kind, 2, s).ok()) << text;
  }
}

}  // namespace
}  // namespace espalier::plan_test::block_tiles_test
