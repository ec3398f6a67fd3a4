// SPDX-License-Identifier: Apache-2.0
#include "partition/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "partition/communication.h"

namespace espalier::partition::layout_test {
namespace {

PartitionSequence sequence_of(std::string_view text, std::string_view letters = "BMNK") {
  return *parse_sequence(text, letters, letters.find('K') != std::string_view::npos);
}
OperatorShape linear() { return linear_shape("linear", 64, 64, 64, 64); }

// On two devices, O[B, M, K] is split by K, and the next linear needs I[B, M, N] split by M. Each device holds one
// half of its half and fetches a quarter of the tensor from the other. A unit has halves of M and K: a quarter.
TEST(Redistribution, IsTheSmallestExampleByHand) {
  const Layout held = forward_held(linear(), {split('K')});
  const Layout needed = forward_needed(linear(), {split('M')}, 0);
  const Redistribution moved = redistribution(held, needed);
  EXPECT_EQ(moved.unit_bits, 2);
  EXPECT_EQ(moved.fetched, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(moved.largest[1], 1);
  EXPECT_EQ(moved.total[1], 2);
  EXPECT_EQ(moved.fetched_total(), 2);
  EXPECT_EQ(redistribution_total(held, needed), 0.5);
  // Device 0 needs M = 0 and has K = 0; it lacks (M, K) = (0, 1).
  const std::vector<TileMove> expected = {{1, 0, Tile{{0, 0, 1, 0}, {0, 1, 1, 0}}}, {0, 1, Tile{{0, 1, 0, 0}, {0, 1, 1, 0}}}};
  EXPECT_EQ(redistribution_moves(held, needed), expected);
}

// Replicated by N (after the all-reduce), needed split: nothing moves. Split, needed whole: the other three quarters
// move, one from the neighbour, two from the other node.
TEST(Redistribution, ReplicasCostNothingAndGatheringCostsTheRest) {
  const Layout whole = forward_held(linear(), sequence_of("N,N"));
  const Layout quarters = forward_needed(linear(), sequence_of("N,N"), 0);
  EXPECT_EQ(redistribution(whole, quarters).fetched_total(), 0);
  const Redistribution gather = redistribution(quarters, whole);
  EXPECT_EQ(gather.unit_bits, 2);
  EXPECT_EQ(gather.fetched, (std::vector<std::int64_t>{3, 3, 3, 3}));
  EXPECT_EQ(gather.largest[1], 1);
  EXPECT_EQ(gather.largest[2], 2);
  EXPECT_EQ(gather.total[2], 8);
}

// P_{2×2} after P_{2×2}. Forward: O lies as (M, K) = (r, c), I begins at (r, r + c): row 0 is in place, the devices of
// row 1 swap their tiles. Backward: dI lies as (r, r + c − 1), dO begins at (r, c): row 1 is in place, row 0 swaps.
TEST(Redistribution, ChainedPrimitivesAreSkewedInsideRows) {
  const PartitionSequence p2 = {primitive(1)};
  const auto exchange = [](int a, int b, const Layout& needed) {
    return std::vector<TileMove>{{b, a, needed.tile(a)}, {a, b, needed.tile(b)}};
  };
  const Layout input = forward_needed(linear(), p2, 0), output = forward_held(linear(), p2);
  EXPECT_EQ(redistribution_moves(output, input), exchange(2, 3, input));
  EXPECT_EQ(redistribution(output, input).fetched, (std::vector<std::int64_t>{0, 0, 1, 1}));
  const Layout slope = backward_held(linear(), p2, 0), wanted = backward_needed(linear(), p2);
  EXPECT_EQ(redistribution_moves(slope, wanted), exchange(0, 1, wanted));
  EXPECT_EQ(redistribution(slope, wanted).total[1], 2);
}

// P_{2^k×2^k} in general: row r of the torus shifts by r forward and by r − 1 backward, so all but one of 2^k rows move
// whole tiles, and never out of the row.
TEST(Redistribution, SkewMovesAllRowsButOne) {
  for (int k = 1; k <= 4; ++k) {
    const PartitionSequence p = {primitive(k)};
    const std::int64_t rows = std::int64_t{1} << k;
    const GroupIndicator columns = 0x55555555U & ((1U << (2 * k)) - 1);  // the bits of c
    for (const auto& [held, needed] : {std::pair(forward_held(linear(), p), forward_needed(linear(), p, 0)),
                                       std::pair(backward_held(linear(), p, 0), backward_needed(linear(), p))}) {
      const auto moves = redistribution_moves(held, needed);
      EXPECT_EQ(static_cast<std::int64_t>(moves.size()), rows * (rows - 1));
      EXPECT_EQ(redistribution(held, needed).fetched_total(), rows * (rows - 1));
      for (const TileMove& move : moves) EXPECT_EQ(static_cast<GroupIndicator>(move.from ^ move.to) & ~columns, 0u);
    }
  }
}

// fc1 {K, P2}, element-wise {feature, position, feature}, fc2 {N, P2} (PrimePar, figure 9): O and dI of the
// element-wise operator are in place between fc1 and it; fc2 takes the skew.
TEST(Redistribution, PublishedMlpPlan) {
  const OperatorShape op = elementwise_shape("relu", 64, 64, 64);
  const PartitionSequence fc1 = sequence_of("K,P2"), relu = sequence_of("N,M,N", "BMN"), fc2 = sequence_of("N,P2");
  EXPECT_EQ(redistribution_total(forward_held(linear(), fc1), forward_needed(op, relu, 0)), 0);
  EXPECT_EQ(redistribution_total(forward_held(op, relu), forward_needed(linear(), fc2, 0)), 0.5);
  EXPECT_EQ(redistribution_total(backward_held(linear(), fc2, 0), backward_needed(op, relu)), 0.5);
  EXPECT_EQ(redistribution_total(backward_held(op, relu, 0), backward_needed(linear(), fc1)), 0);
}

// QKV linear with K in eight slices, 8 heads with 2 heads of K and V, heads in eight slices: Q is in place.
TEST(Redistribution, HeadsMatchFeaturesByPosition) {
  const OperatorShape core = fused_attention_shape("core", {4, 8, 8, 8, 2, 4});
  const OperatorShape qkv = linear_shape("qkv", 4, 8, 32, 64);
  const Layout held = forward_held(qkv, sequence_of("K,K,K"));
  const PartitionSequence heads = sequence_of("H,H,H", "BMH");
  EXPECT_EQ(redistribution_total(held, forward_needed(core, heads, 0)), 0);
  // Each of the 8 devices needs one of the 2 heads of K. It holds an eighth of the tensor and fetches three more.
  EXPECT_EQ(redistribution_total(held, forward_needed(core, heads, 1)), 3.0);
}

TEST(Reach, IsTheAlignedBlock) {
  EXPECT_EQ(reach(5, 5), 0);
  EXPECT_EQ(reach(4, 5), 1);
  EXPECT_EQ(reach(5, 6), 2);
  EXPECT_EQ(reach(3, 4), 3);
}

// Devices of a block hold a product of slices together wherever no P is cut: one box.
TEST(Coverage, MergesWhatABlockHolds) {
  const Coverage coverage(forward_held(linear(), sequence_of("K,B,M,K")));
  for (int r = 0; r <= 4; ++r) {
    for (int device = 0; device < 16; ++device) EXPECT_EQ(coverage.end(r, device) - coverage.begin(r, device), 1);
  }
  const Tile half = *coverage.begin(3, 8);
  EXPECT_EQ(half, (Tile{{0, 0, 1, 0}, {0, 0, 1, 0}}));
}

/// Counts tiles one by one on the finest common grid, and searches all devices for the nearest holder.
Redistribution brute_force(const Layout& held, const Layout& needed) {
  std::array<int, kMaxAxes> bits{};
  Redistribution result;
  for (std::size_t a = 0; a < kMaxAxes; ++a) {
    bits[a] = std::max(held.bits[a], needed.bits[a]);
    result.unit_bits += bits[a];
  }
  const auto holds = [&](const Layout& layout, int device, std::int64_t unit) {
    for (std::size_t a = 0; a < kMaxAxes; ++a) {
      const std::int64_t at = unit & ((1 << bits[a]) - 1),
                         first = std::int64_t{layout.tile(device).index[a]} << (bits[a] - layout.bits[a]);
      if (at < first || at >= first + (1 << (bits[a] - layout.bits[a]))) return false;
      unit >>= bits[a];
    }
    return true;
  };
  result.fetched.resize(static_cast<std::size_t>(needed.devices()));
  for (int device = 0; device < needed.devices(); ++device) {
    std::array<std::int64_t, kMaxBits + 1> at{};
    for (std::int64_t unit = 0; unit < std::int64_t{1} << result.unit_bits; ++unit) {
      if (!holds(needed, device, unit) || holds(held, device, unit)) continue;
      ++result.fetched[static_cast<std::size_t>(device)];
      int nearest = kMaxBits + 1;
      for (int other = 0; other < held.devices(); ++other) {
        if (holds(held, other, unit)) nearest = std::min(nearest, reach(device, other));
      }
      ++at.at(static_cast<std::size_t>(nearest));
    }
    for (std::size_t r = 0; r < at.size(); ++r) {
      result.largest[r] = std::max(result.largest[r], at[r]);
      result.total[r] += at[r];
    }
  }
  return result;
}

void expect_equal_to_brute_force(const Layout& held, const Layout& needed) {
  const Redistribution fast = redistribution(held, needed), slow = brute_force(held, needed);
  ASSERT_EQ(fast, slow);
  const double units = static_cast<double>(std::int64_t{1} << fast.unit_bits);
  ASSERT_EQ(redistribution_total(held, needed), static_cast<double>(fast.fetched_total()) / units);
  // There are as many messages as units, each from a device at the reach that is counted.
  std::array<std::int64_t, kMaxBits + 1> total{};
  for (const TileMove& move : redistribution_moves(held, needed)) ++total[static_cast<std::size_t>(reach(move.from, move.to))];
  ASSERT_EQ(total, slow.total);
}

// All ordered pairs of linears on 8 devices, forward and backward: 72² pairs each.
TEST(RedistributionProperty, EqualsBruteForceOnAllPairsOfEightDevices) {
  std::vector<Layout> outputs, inputs, slopes, wanted;
  for (const PartitionSequence& sequence : enumerate_sequences(3, "BMNK", true)) {
    outputs.push_back(forward_held(linear(), sequence));
    inputs.push_back(forward_needed(linear(), sequence, 0));
    slopes.push_back(backward_held(linear(), sequence, 0));
    wanted.push_back(backward_needed(linear(), sequence));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      ASSERT_NO_FATAL_FAILURE(expect_equal_to_brute_force(outputs[i], inputs[j]));
      ASSERT_NO_FATAL_FAILURE(expect_equal_to_brute_force(slopes[i], wanted[j]));
    }
  }
}

// 1,000 random pairs on 2 … 64 devices: any step of any phase of I or O, so that skews of every kind meet.
TEST(RedistributionProperty, EqualsBruteForceOnRandomPairs) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  std::vector<std::vector<PartitionSequence>> spaces;
  for (int bits = 0; bits <= 6; ++bits) spaces.push_back(enumerate_sequences(bits, "BMNK", true));
  int with_primitive = 0;
  for (int pair = 0; pair < 1000; ++pair) {
    const std::vector<PartitionSequence>& space = spaces[1 + below(6)];
    const auto any = [&] {
      const PartitionSequence* sequence = &space[below(space.size())];
      // Half of the draws have a P, because such sequences are the smaller part of the space.
      for (int tries = 0; pair % 2 == 0 && steps(*sequence) == 1 && tries < 20; ++tries) sequence = &space[below(space.size())];
      with_primitive += steps(*sequence) > 1 ? 1 : 0;
      return layout_at(linear(), *sequence, below(2) == 0 ? 0 : 2, kPhases[below(3)],
                       static_cast<int>(below(static_cast<std::size_t>(steps(*sequence)))));
    };
    const Layout held = any(), needed = any();
    ASSERT_NO_FATAL_FAILURE(expect_equal_to_brute_force(held, needed));
  }
  EXPECT_GT(with_primitive, 500);
}

}  // namespace
}  // namespace espalier::partition::layout_test
