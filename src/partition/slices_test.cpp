// SPDX-License-Identifier: Apache-2.0
#include "partition/slices.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace espalier::partition::slices_test {
namespace {

PartitionSequence sequence_of(std::string_view text) { return *parse_sequence(text, "BMNK", true); }

// P_{2×2}, devices (r, c) = (d1, d2), two steps. Forward, device (0, 1) works on O tile (M, K) = (0, 1) with the
// slices N = 0 + 1 + t: first 1, then 0. Backward, it works on dI tile (M, N) = (0, 0) with K = 1, then 0. In the
// gradient phase it first works on dW tile (N, K) = (0, 0) with M = 0. In the last step (δ = 1) it works on (1, 1)
// with M = 1.
TEST(SliceIndex, PrimitiveByHand) {
  const PartitionSequence p2 = {primitive(1)};
  EXPECT_EQ(steps(p2), 2);
  const int device = 0b01;
  const auto indices = [&](Phase phase, int t) {
    return std::tuple(slice_index(p2, 'M', phase, device, t), slice_index(p2, 'N', phase, device, t),
                      slice_index(p2, 'K', phase, device, t));
  };
  EXPECT_EQ(indices(Phase::forward, 0), std::tuple(0, 1, 1));
  EXPECT_EQ(indices(Phase::forward, 1), std::tuple(0, 0, 1));
  EXPECT_EQ(indices(Phase::backward, 0), std::tuple(0, 0, 1));
  EXPECT_EQ(indices(Phase::backward, 1), std::tuple(0, 0, 0));
  EXPECT_EQ(indices(Phase::gradient, 0), std::tuple(0, 0, 0));
  EXPECT_EQ(indices(Phase::gradient, 1), std::tuple(1, 1, 1));
  EXPECT_EQ(slice_index(p2, 'B', Phase::forward, device, 0), 0);
}

// In "K,B,K", K takes d1 and d3, B takes d2. Device 6 = 110 has K = 2·1 + 0, B = 1.
TEST(SliceIndex, SplitsAppendBits) {
  const PartitionSequence sequence = sequence_of("K,B,K");
  EXPECT_EQ(steps(sequence), 1);
  EXPECT_EQ(slices(sequence, 'K'), 4);
  EXPECT_EQ(slices(sequence, 'B'), 2);
  EXPECT_EQ(slices(sequence, 'M'), 1);
  for (const Phase phase : kPhases) {
    EXPECT_EQ(slice_index(sequence, 'K', phase, 6, 0), 2);
    EXPECT_EQ(slice_index(sequence, 'B', phase, 6, 0), 1);
    EXPECT_EQ(slice_index(sequence, 'M', phase, 6, 0), 0);
  }
}

// P_{4×4} has the bits r1 c1 r2 c2. Device 1001 has r = 2·1 + 0 = 2, c = 2·0 + 1 = 1. With K before P, d1 is the
// leading digit of K.
TEST(SliceIndex, RowsAndColumnsInterleave) {
  const PartitionSequence sequence = sequence_of("K,P4");
  const int device = 0b11001;
  EXPECT_EQ(slice_index(sequence, 'M', Phase::forward, device, 0), 2);
  EXPECT_EQ(slice_index(sequence, 'K', Phase::forward, device, 0), 4 + 1);
  EXPECT_EQ(slice_index(sequence, 'N', Phase::forward, device, 0), 3);
  EXPECT_EQ(slice_index(sequence, 'N', Phase::forward, device, 3), (2 + 1 + 3) % 4);
  EXPECT_EQ(slice_index(sequence, 'K', Phase::gradient, device, 0), 4 + 0);
  EXPECT_EQ(slice_index(sequence, 'K', Phase::gradient, device, 3), 4 + 1);
}

// Two levels of time: step 5 of "P4,P2" is (t1, t2) = (2, 1), and δ is 1 only in step 7.
TEST(SliceIndex, TimeHasALevelForEachPrimitive) {
  const PartitionSequence sequence = sequence_of("P4,P2");
  EXPECT_EQ(steps(sequence), 8);
  EXPECT_EQ(slices(sequence, 'N'), 8);
  EXPECT_EQ(slice_index(sequence, 'N', Phase::forward, 0, 5), 2 * 2 + 1);
  EXPECT_EQ(slice_index(sequence, 'K', Phase::gradient, 0, 5), 3 * 2 + 1);
  EXPECT_EQ(slice_index(sequence, 'K', Phase::gradient, 0, 6), 3 * 2 + 1);
  EXPECT_EQ(slice_index(sequence, 'K', Phase::gradient, 0, 7), 0);
}

// Every sub-product (B, M, N, K slice) of every phase is done exactly once over devices and steps: the partition is
// complete and nothing is computed twice. The test covers all sequences of up to 4 bits (16 devices), and all of 6
// bits that hold two or three P's.
TEST(SliceIndex, EverySubProductIsDoneOnce) {
  int checked = 0;
  const auto check = [&](const PartitionSequence& sequence) {
    const int whole = slices(sequence, 'B') * slices(sequence, 'M') * slices(sequence, 'N') * slices(sequence, 'K');
    ASSERT_EQ(whole, sequence.devices() * steps(sequence));
    for (const Phase phase : kPhases) {
      std::set<int> done;
      for (int device = 0; device < sequence.devices(); ++device) {
        for (int t = 0; t < steps(sequence); ++t) {
          int product = 0;
          for (const char letter : {'B', 'M', 'N', 'K'}) {
            const int index = slice_index(sequence, letter, phase, device, t);
            ASSERT_TRUE(index >= 0 && index < slices(sequence, letter));
            product = product * slices(sequence, letter) + index;
          }
          ASSERT_TRUE(done.insert(product).second) << to_string(sequence);
        }
      }
    }
    ++checked;
  };
  for (int bits = 0; bits <= 4; ++bits) {
    for (const PartitionSequence& sequence : enumerate_sequences(bits, "BMNK", true)) check(sequence);
  }
  for (const PartitionSequence& sequence : enumerate_sequences(6, "BMNK", true)) {
    if (steps(sequence) >= 4) check(sequence);
  }
  EXPECT_GT(checked, 400);
}

}  // namespace
}  // namespace espalier::partition::slices_test
