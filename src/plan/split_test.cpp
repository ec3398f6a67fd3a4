// SPDX-License-Identifier: Apache-2.0
#include "plan/split.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/test_problem.h"

namespace espalier {
namespace {

using Firsts = std::vector<std::int32_t>;

double largest_sum(const std::vector<double>& weights, const Firsts& firsts) {
  double largest = 0;
  for (std::size_t c = 0; c < firsts.size(); ++c) {
    const auto end = c + 1 < firsts.size() ? static_cast<std::size_t>(firsts[c + 1]) : weights.size();
    largest =
        std::max(largest, std::accumulate(weights.begin() + firsts[c], weights.begin() + static_cast<std::ptrdiff_t>(end), 0.0));
  }
  return largest;
}

/// Solves all contiguous splits by dynamic programming: best[k][i] = smallest largest sum of the first i weights
/// in k ranges.
double brute_force(const std::vector<double>& weights, std::int32_t chunks) {
  const std::size_t n = weights.size();
  std::vector<double> best(n + 1, INFINITY);
  best[0] = 0;
  for (std::int32_t k = 1; k <= chunks; ++k) {
    std::vector<double> next(n + 1, INFINITY);
    for (std::size_t i = 1; i <= n; ++i) {
      double sum = 0;
      for (std::size_t j = i; j-- > 0;) {
        sum += weights[j];
        next[i] = std::min(next[i], std::max(best[j], sum));
      }
    }
    best = next;
  }
  return best[n];
}

// Six layers of 1, 2, 3, 3, 2, 1 are split into three chunks. With at most 5 per chunk the first holds {1,2}, the
// second {3}, and the rest {3,2,1} sums to 6, so the bound is 6. Quantiles are at 4 and 8. The first boundary may
// follow sum 3 or sum 6; 3 is nearer to 4. The second may follow 6 or 9, and the one nearer to 8 is taken.
TEST(BalancedSplit, IsTheSmallestExampleByHand) {
  EXPECT_EQ(balanced_split({1, 2, 3, 3, 2, 1}, 3), (Firsts{0, 2, 4}));
  EXPECT_EQ(balanced_split({1, 1, 1, 1}, 2), (Firsts{0, 2}));
  EXPECT_EQ(balanced_split({5}, 1), (Firsts{0}));
  EXPECT_EQ(balanced_split({0, 0, 0}, 3), (Firsts{0, 1, 2}));
}

// 126 equal blocks with a free embedding and a head of 0.6 on 16 stages give 7.9 per stage, so at most 8 blocks. The
// quantiles place the 2 stages with 7, which are not both at the end.
TEST(BalancedSplit, SpreadsTheRemainder) {
  std::vector<double> weights(128, 0.1);
  weights.front() = 0;
  weights.back() = 0.06;
  const Firsts firsts = balanced_split(weights, 16);
  std::vector<std::int32_t> sizes;
  for (std::size_t c = 0; c < 16; ++c) sizes.push_back((c + 1 < 16 ? firsts[c + 1] : 128) - firsts[c]);
  EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), 9);  // embedding + 8 blocks
  EXPECT_EQ(sizes.front(), 9);
  EXPECT_LE(sizes[8] + sizes[7] + sizes[6] + sizes[5], 32);
  EXPECT_NEAR(largest_sum(weights, firsts), 0.8, 1e-9);
}

TEST(BalancedSplit, EqualsBruteForceAndIsStable) {
  EXPECT_TRUE(rc::check("largest sum is minimal, ranges are non-empty", [] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 24);
    const auto numbers = *rc::gen::container<std::vector<int>>(size, rc::gen::inRange(0, 50));
    const std::vector<double> weights(numbers.begin(), numbers.end());
    const auto chunks = *rc::gen::inRange<std::int32_t>(1, static_cast<std::int32_t>(size) + 1);
    const Firsts firsts = balanced_split(weights, chunks);
    RC_ASSERT(firsts.size() == static_cast<std::size_t>(chunks));
    RC_ASSERT(firsts.front() == 0);
    for (std::size_t c = 1; c < firsts.size(); ++c) RC_ASSERT(firsts[c] > firsts[c - 1]);
    RC_ASSERT(firsts.back() < static_cast<std::int32_t>(size));
    if (std::any_of(numbers.begin(), numbers.end(), [](int n) { return n > 0; })) {
      RC_ASSERT(std::abs(largest_sum(weights, firsts) - brute_force(weights, chunks)) < 1e-6);
    }
    // Scale makes no difference beyond rounding: powers of two are exact.
    std::vector<double> scaled = weights;
    for (double& w : scaled) w *= 0x1p70;
    RC_ASSERT(balanced_split(scaled, chunks) == firsts);
  }));
}

TEST(BalancedSplit, EqualLayersMakeEvenChunks) {
  for (std::int32_t chunks = 1; chunks <= 48; ++chunks) {
    const Firsts firsts = balanced_split(std::vector<double>(48, 0.7), chunks);
    for (std::size_t c = 0; c < firsts.size(); ++c) {
      const std::int32_t size = (c + 1 < firsts.size() ? firsts[c + 1] : 48) - firsts[c];
      EXPECT_LE(size, (48 + chunks - 1) / chunks) << chunks;
      EXPECT_GE(size, 48 / chunks - (48 % chunks != 0 ? 1 : 0)) << chunks;
    }
  }
}

// In nanotron, 16 blocks have 16·h² each and the head has 131,072·h = 4 blocks, with h = 2,048. A share of 2 chunks
// is 10 blocks and one of 4 is 5, both reached exactly. A share of 8 is 2.5: 3, 5, 8, 10, 13 and 15 blocks. The head
// reaches the last share, 17.5, and the chunk before it keeps a block.
TEST(CumulativeSplit, EndsAChunkWithTheLayerThatReachesItsShare) {
  DecoderShape shape;
  shape.layers = 16;
  shape.hidden = 2048;
  shape.heads = 32;
  shape.kv_heads = 32;
  shape.ffn = 8192;
  shape.gated = true;
  shape.vocabulary = 131072;
  shape.rotary = true;
  shape.learned_positions = false;
  shape.biases = false;
  const auto model = make_decoder(shape, "toy");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(cumulative_split(*model, 1), (Firsts{0}));
  EXPECT_EQ(cumulative_split(*model, 2), (Firsts{0, 11}));
  EXPECT_EQ(cumulative_split(*model, 4), (Firsts{0, 6, 11, 16}));
  EXPECT_EQ(cumulative_split(*model, 8), (Firsts{0, 4, 6, 9, 11, 14, 16, 17}));
  for (std::int32_t chunks = 1; chunks <= 18; ++chunks) {
    const Firsts firsts = cumulative_split(*model, chunks);
    ASSERT_EQ(firsts.size(), static_cast<std::size_t>(chunks));
    for (std::size_t c = 1; c < firsts.size(); ++c) EXPECT_GT(firsts[c], firsts[c - 1]);
    EXPECT_LT(firsts.back(), 18);
  }
}

// 8 blocks on 3 chunks give 3, 3, 2; the embedding goes with the first, the head with the last.
TEST(EvenBlocks, KeepsEmbeddingAndHeadAtTheEnds) {
  const Model model = plan_test::decoder({});
  EXPECT_EQ(even_blocks_split(model, 3), (Firsts{0, 4, 7}));
  EXPECT_EQ(even_blocks_split(model, 4), (Firsts{0, 3, 5, 7}));
  EXPECT_EQ(even_blocks_split(model, 1), (Firsts{0}));
  EXPECT_EQ(even_blocks_split(model, 5),
            (Firsts{0, 2, 4, 6, 8}));                   // 8 blocks do not divide by 5, with embedding and head they do
  EXPECT_EQ(even_blocks_split(model, 10).size(), 10u);  // more chunks than blocks: layers instead
  EXPECT_EQ(largest_chunk_blocks(model, {0, 4, 7}), 3);
}

// A decoder embedding in the middle starts with the block after it.
TEST(EvenBlocks, InnerEmbeddingGoesWithTheNextBlock) {
  Model model = plan_test::decoder({});
  model.layers = {0, 1, 1, 0, 1, 1, 2};
  EXPECT_EQ(even_blocks_split(model, 2), (Firsts{0, 3}));
}

TEST(SplitWeights, AreTheForwardFlops) {
  const Model model = plan_test::decoder({});
  const Sequence sequence{64, 0, 0};
  const std::vector<double> weights = split_weights(model, sequence);
  ASSERT_EQ(weights.size(), 10u);
  EXPECT_EQ(weights[0], 0);
  EXPECT_EQ(weights[1], forward_flops(model.kinds[1], sequence, true).count());
  EXPECT_EQ(weights[1], weights[8]);
  EXPECT_EQ(weights[9], 2.0 * 128 * 1000 * 64);
}

}  // namespace
}  // namespace espalier
