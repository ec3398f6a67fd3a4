// SPDX-License-Identifier: Apache-2.0
#include "partition/communication.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace espalier::partition::communication_test {
namespace {

PartitionSequence sequence_of(std::string_view text) { return *parse_sequence(text, "BMNK", true); }
OperatorShape linear(std::int64_t size = 1 << 10) { return linear_shape("linear", size, size, size, size); }

constexpr TensorUse kI{0, false}, kW{1, false}, kDO{2, true}, kDW{1, true};

const TileTransfer* find(const Communication& all, Phase phase, int step, TensorUse tensor) {
  for (const TileTransfer& one : all.transfers) {
    if (one.phase == phase && one.step == step && one.tensor == tensor) return &one;
  }
  return nullptr;
}

// P_{2×2} on 4 devices, linear 8×8×8×8 (B M N K). I is 8·8·8 and a tile is a quarter, 128; a tile of W is a quarter
// of 64, 16. In forward step 0 device (0, 0) = 0 gets I from (0, 1) = 1 and W from (1, 0) = 2. There are eight
// transfers: F I, W; B dO, W, W back; G I, dO, dW.
TEST(Communication, IsTheSmallestExampleByHand) {
  const Communication all = communication(linear_shape("linear", 8, 8, 8, 8), {primitive(1)});
  EXPECT_TRUE(all.reductions.empty());
  ASSERT_EQ(all.transfers.size(), 8u);
  const TileTransfer* i = find(all, Phase::forward, 0, kI);
  ASSERT_NE(i, nullptr);
  EXPECT_EQ(i->sender, (std::vector<std::int16_t>{1, 0, 3, 2}));
  EXPECT_EQ(i->elements, 128);
  EXPECT_EQ(i->reach, 1);
  const TileTransfer* w = find(all, Phase::forward, 0, kW);
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->sender, (std::vector<std::int16_t>{2, 3, 0, 1}));
  EXPECT_EQ(w->elements, 16);
  EXPECT_EQ(w->reach, 2);
  EXPECT_EQ(receive_buffer_elements(all), 128 + 128);  // gradient, step 0: I and dO
}

// With "N,B", I·W is summed over the N bit in forward, dW over the B bit. dI is whole.
TEST(Communication, SplitsOfASummedDimensionReduce) {
  const Communication all = communication(linear(), sequence_of("N,B"));
  EXPECT_TRUE(all.transfers.empty());
  ASSERT_EQ(all.reductions.size(), 2u);
  EXPECT_EQ(all.reductions[0].phase, Phase::forward);
  EXPECT_EQ(indicator_text(all.reductions[0].indicator, 2), "(d1)");
  EXPECT_EQ(all.reductions[0].elements, std::int64_t{1} << (10 + 10 + 10 - 1));
  EXPECT_EQ(all.reductions[1].phase, Phase::gradient);
  EXPECT_EQ(indicator_text(all.reductions[1].indicator, 2), "(d2)");
  EXPECT_EQ(all.reductions[1].elements, std::int64_t{1} << (10 + 10 - 1));
  EXPECT_EQ(group_of(1, all.reductions[1].indicator), (std::vector<int>{0, 1}));
  EXPECT_EQ(group_of(1, 0b10), (std::vector<int>{1, 3}));
  EXPECT_EQ(group_of(5, 0b101), (std::vector<int>{0, 1, 4, 5}));
}

// D = (d1, d2, d3), N split by d1 and d3: devices of a group have the same d2.
TEST(Communication, GroupIndicatorOfTheFirstAndThirdBit) {
  const Communication all = communication(linear(), sequence_of("N,K,N"));
  ASSERT_FALSE(all.reductions.empty());
  EXPECT_EQ(indicator_text(all.reductions[0].indicator, 3), "(d1,d3)");
  EXPECT_EQ(all.reductions[0].group_size, 4);
}

/// Converts a device to its row and column on the torus of P_{2^k×2^k}, and back.
struct Torus {
  int k;
  [[nodiscard]] int side() const { return 1 << k; }
  [[nodiscard]] int device(int r, int c) const {
    int id = 0;
    for (int j = k - 1; j >= 0; --j) id = 4 * id + 2 * ((r >> j) & 1) + ((c >> j) & 1);
    return id;
  }
  [[nodiscard]] int around(int x) const { return (x + side()) % side(); }
};

// Table 1 of the paper: receiver (r, c) ← sender (r + dr, c + dc), for every step of every phase, k = 1 … 4. There
// are no other transfers.
TEST(Communication, IsTableOneOfThePaper) {
  for (int k = 1; k <= 4; ++k) {
    const Torus torus{k};
    const int last = torus.side() - 1;
    const Communication all = communication(linear(), {primitive(k)});
    std::size_t rows = 0;
    const auto expect = [&](Phase phase, int step, TensorUse tensor, int dr, int dc, bool accumulator = false) {
      const TileTransfer* transfer = find(all, phase, step, tensor);
      ASSERT_NE(transfer, nullptr) << k << to_string(phase) << step;
      EXPECT_EQ(transfer->accumulator, accumulator);
      for (int r = 0; r < torus.side(); ++r) {
        for (int c = 0; c < torus.side(); ++c) {
          ASSERT_EQ(transfer->sender[static_cast<std::size_t>(torus.device(r, c))],
                    torus.device(torus.around(r + dr), torus.around(c + dc)))
              << "k " << k << ", " << to_string(phase) << " step " << step << ", (" << r << ", " << c << ")";
        }
      }
      ++rows;
    };
    for (int t = 0; t < last; ++t) {
      expect(Phase::forward, t, kI, 0, 1);
      expect(Phase::forward, t, kW, 1, 0);
      expect(Phase::backward, t, kDO, 0, 1);
      expect(Phase::backward, t, kW, -1, 1);
    }
    expect(Phase::backward, last, kW, 0, 1);
    for (int t = 0; t < last - 1; ++t) {
      expect(Phase::gradient, t, kI, 1, -1);
      expect(Phase::gradient, t, kDO, 1, 0);
    }
    expect(Phase::gradient, last - 1, kI, 1, 0);
    expect(Phase::gradient, last - 1, kDO, 1, 1);
    expect(Phase::gradient, last, kDW, 0, 1, true);
    EXPECT_EQ(all.transfers.size(), rows) << k;
    EXPECT_TRUE(all.reductions.empty());
  }
}

// A device receives (2(q − 1)(|I| + |dO|) + 2q·|W|) / q² elements in one training step, q = 2^k.
TEST(Communication, TrafficOfThePrimitive) {
  const OperatorShape op = linear_shape("linear", 2, 64, 128, 256);
  const std::int64_t i = 2 * 64 * 128, w = 128 * 256, o = 2 * 64 * 256;
  for (int k = 1; k <= 4; ++k) {
    const std::int64_t q = 1 << k;
    std::int64_t received = 0;
    for (const TileTransfer& transfer : communication(op, {primitive(k)}).transfers) received += transfer.elements;
    EXPECT_EQ(received, (2 * (q - 1) * (i + o) + 2 * q * w) / (q * q));
  }
}

/// Returns sequences that hold P's among splits, for the properties below.
std::vector<PartitionSequence> composed() {
  std::vector<PartitionSequence> all;
  for (int k = 1; k <= 4; ++k) all.push_back({primitive(k)});
  for (int bits = 1; bits <= 5; ++bits) {
    for (const PartitionSequence& sequence : enumerate_sequences(bits, "BMNK", true)) all.push_back(sequence);
  }
  for (const char* text : {"P2,P2,P2", "P4,P2", "P2,P4", "K,P4,B", "B,P4,N", "M,P2,P2,K", "N,P4,K,B", "P2,N,P2,M", "M,P8,N"}) {
    all.push_back(sequence_of(text));
  }
  return all;
}

/// Returns the bits of the device id that splits of these dimensions use.
GroupIndicator bits_of(const PartitionSequence& sequence, std::string_view dimensions) {
  GroupIndicator mask = 0;
  int used = 0;
  for (const BasicPartition& part : sequence) {
    if (!part.primitive() && dimensions.find(part.dimension) != std::string_view::npos) {
      mask |= GroupIndicator{1} << (sequence.bits() - 1 - used);
    }
    used += part.bits();
  }
  return mask;
}

// No collective comes from P: reductions are over the split bits of N (forward), K (backward), and B and M (gradient)
// alone. Their groups are exactly the devices that end on the same output tile.
TEST(CommunicationProperty, ReductionsComeFromSplitsAlone) {
  const OperatorShape op = linear();
  const std::map<Phase, std::pair<std::string, int>> summed = {
      {Phase::forward, {"N", 2}}, {Phase::backward, {"K", 0}}, {Phase::gradient, {"BM", 1}}};
  for (const PartitionSequence& sequence : composed()) {
    const Communication all = communication(op, sequence);
    for (const Phase phase : kPhases) {
      GroupIndicator found = 0;
      for (const Reduction& reduction : all.reductions) {
        if (reduction.phase == phase) found |= reduction.indicator;
      }
      ASSERT_EQ(found, bits_of(sequence, summed.at(phase).first)) << to_string(sequence) << " " << to_string(phase);
      const Layout output = layout_at(op, sequence, summed.at(phase).second, phase, steps(sequence) - 1);
      for (int device = 0; device < sequence.devices(); ++device) {
        std::vector<int> same;
        for (int other = 0; other < sequence.devices(); ++other) {
          if (output.tile(device) == output.tile(other)) same.push_back(other);
        }
        ASSERT_EQ(same, group_of(device, found)) << to_string(sequence);
      }
    }
  }
}

// No replication comes from P: at every step of every phase a tile is on as many devices as the splits of other
// dimensions give copies. Among the devices of the P's, tiles are therefore a bijection.
TEST(CommunicationProperty, PrimitiveReplicatesNothing) {
  const OperatorShape op = linear();
  const std::vector<std::string> others = {"K", "BM", "N"};  // dimensions that I, W, O lack
  for (const PartitionSequence& sequence : composed()) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      const int copies = 1 << std::popcount(bits_of(sequence, others[static_cast<std::size_t>(tensor)]));
      for (const Phase phase : kPhases) {
        for (int t = 0; t < steps(sequence); ++t) {
          const Layout layout = layout_at(op, sequence, tensor, phase, t);
          std::map<std::array<std::int16_t, kMaxAxes>, int> count;
          for (const auto& index : layout.index) ++count[index];
          for (const auto& [index, n] : count) ASSERT_EQ(n, copies) << to_string(sequence);
          ASSERT_EQ(static_cast<int>(count.size()) * copies, sequence.devices());
        }
      }
    }
  }
}

// I: forward's last = gradient's first. W: forward's last = backward's first. dO: backward's last = gradient's first.
// dW: gradient's last = W at forward's first. O: forward's last = dO at backward's first.
TEST(CommunicationProperty, PhasesAreAligned) {
  const OperatorShape op = linear();
  for (const PartitionSequence& sequence : composed()) {
    const int last = steps(sequence) - 1;
    const auto at = [&](int tensor, Phase phase, int step) { return layout_at(op, sequence, tensor, phase, step); };
    ASSERT_EQ(at(0, Phase::forward, last), at(0, Phase::gradient, 0));
    ASSERT_EQ(at(1, Phase::forward, last), at(1, Phase::backward, 0));
    ASSERT_EQ(at(2, Phase::backward, last), at(2, Phase::gradient, 0));
    ASSERT_EQ(at(1, Phase::gradient, last), at(1, Phase::forward, 0));
    ASSERT_EQ(at(2, Phase::forward, last), at(2, Phase::backward, 0));
    // Only W goes back, and only where a P has moved it.
    for (const TileTransfer& transfer : communication(op, sequence).transfers) {
      if (transfer.step < last || transfer.accumulator) continue;
      ASSERT_EQ(transfer.phase, Phase::backward);
      ASSERT_EQ(transfer.tensor, kW);
    }
  }
}

// Every transfer is a permutation of the devices inside the blocks that the splits leave, and brings what the next
// step needs.
TEST(CommunicationProperty, TransfersArePermutationsThatBringTheTile) {
  const OperatorShape op = linear();
  for (const PartitionSequence& sequence : composed()) {
    const GroupIndicator splits = bits_of(sequence, "BMNK");
    for (const TileTransfer& transfer : communication(op, sequence).transfers) {
      std::set<int> senders(transfer.sender.begin(), transfer.sender.end());
      ASSERT_EQ(static_cast<int>(senders.size()), sequence.devices()) << to_string(sequence);
      int far = 0;
      for (int device = 0; device < sequence.devices(); ++device) {
        const int from = transfer.sender[static_cast<std::size_t>(device)];
        ASSERT_EQ(static_cast<GroupIndicator>(device ^ from) & splits, 0u) << to_string(sequence);
        far = std::max(far, reach(device, from));
      }
      ASSERT_EQ(far, transfer.reach);
    }
  }
}

// With several P's the outer tiles move once per turn of the inner ring, and the accumulator once in all.
TEST(Communication, OuterLevelMovesLeast) {
  const Communication all = communication(linear(), sequence_of("P2,P4"));
  int outer = 0, accumulators = 0;
  for (const TileTransfer& transfer : all.transfers) {
    accumulators += transfer.accumulator ? 1 : 0;
    if (transfer.phase == Phase::forward && transfer.tensor == kI && transfer.reach > 4) ++outer;
  }
  EXPECT_EQ(outer, 1);  // out of 7 moves of I
  EXPECT_EQ(accumulators, 1);
}

// The largest device count: P_{32×32}, and two levels with splits around, 32 and 16 steps.
TEST(Communication, ReachesThousandDevices) {
  for (const char* text : {"P32", "B,P8,P2,N"}) {
    const PartitionSequence sequence = sequence_of(text);
    ASSERT_EQ(sequence.devices(), 1024);
    const std::int64_t turns = steps(sequence);
    EXPECT_EQ(static_cast<std::int64_t>(communication(linear(), sequence).transfers.size()), 6 * (turns - 1) + 2);
  }
}

// Other operators, by hand: what is reduced over which bits, and the elements of a tile.
TEST(Communication, OtherOperatorsReduceWhatTheySum) {
  const auto reductions = [](const OperatorShape& op, std::string_view text) {
    std::string found;
    const auto sequence = parse_sequence(text, splittable_dimensions(op), false);
    for (const Reduction& one : communication(op, *sequence).reductions) {
      const Tensor& tensor = op.tensors[static_cast<std::size_t>(one.tensor.tensor)];
      found += (found.empty() ? "" : " ") + std::string(one.tensor.gradient ? "d" : "") + tensor.name +
               indicator_text(one.indicator, sequence->bits()) + std::to_string(one.elements);
    }
    return found;
  };
  const AttentionSizes gqa{8, 16, 16, 8, 2, 4};
  EXPECT_EQ(reductions(norm_shape("norm", 4, 8, 16, 2), "N,M"), "statistics(d1)32 dstatistics(d1)32 dW(d2)16");
  EXPECT_EQ(reductions(norm_shape("norm", 4, 8, 16, 1), "B,M"), "dW(d1,d2)16");
  EXPECT_EQ(reductions(norm_shape("norm", 4, 8, 16, 0), "B,M"), "");
  EXPECT_EQ(reductions(head_norm_shape("q_norm", 4, 8, 2, 8), "H,M"), "dW(d1,d2)8");
  EXPECT_EQ(reductions(elementwise_shape("gelu", 4, 8, 16), "B,M,N"), "");
  EXPECT_EQ(reductions(add_shape("add", 4, 8, 16), "B,M,N"), "");
  EXPECT_EQ(reductions(softmax_shape("softmax", gqa), "B,M,H"), "");
  EXPECT_EQ(reductions(embedding_shape("embed", 4, 8, 64, 16), "V,B"), "O(d1)256 dW(d2)512");
  EXPECT_EQ(reductions(cross_entropy_shape("loss", 4, 8, 64), "K,B"), "statistics(d1)48");
  EXPECT_EQ(reductions(attention_values_shape("av", gqa), "L,M"), "O(d1)2048 dV(d2)512");
  EXPECT_EQ(reductions(attention_scores_shape("qk", gqa), "L,M"), "dQ(d1)2048 dK(d2)512");
  // Two heads of K and V for eight of Q: the third slice bit of H shares a head, whose gradient is summed over it.
  EXPECT_EQ(reductions(fused_attention_shape("core", gqa), "H,B"), "");
  EXPECT_EQ(reductions(fused_attention_shape("core", gqa), "H,H,B"), "dK(d2)256 dV(d2)256");
  EXPECT_EQ(reductions(fused_attention_shape("core", gqa), "H,H,M"), "dK(d2,d3)512 dV(d2,d3)512");
}

// P_{2×2} on (r, c) = 0 … 3: in forward step 0 device (0,0) receives I from (0,1) and W from (1,0), and sends to the
// same two, as q = 2.
TEST(Communication, ShiftsOfOneDevice) {
  const OperatorShape op = linear_shape("linear", 4, 4, 4, 4);
  const Communication all = communication(op, {primitive(1)});
  EXPECT_EQ(shifts_of(all, Phase::forward, 0, 0), (std::vector<Shift>{{{0, false}, false, 1, 1}, {{1, false}, false, 2, 2}}));
  EXPECT_TRUE(shifts_of(all, Phase::forward, 1, 0).empty());
  // By Table 1, dW comes from (r, c + 1) before its last product.
  EXPECT_EQ(shifts_of(all, Phase::gradient, 1, 2), (std::vector<Shift>{{{1, true}, true, 3, 3}}));
}

}  // namespace
}  // namespace espalier::partition::communication_test
