// SPDX-License-Identifier: Apache-2.0
#include "partition/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace espalier::partition {
namespace {

// K is split by d1, P_{2×2} covers (d2, d3): three bits, eight devices.
TEST(PartitionSequence, IsTheSmallestExampleByHand) {
  const PartitionSequence sequence = {split('K'), primitive(1)};
  EXPECT_EQ(sequence.size(), 2);
  EXPECT_EQ(sequence.bits(), 3);
  EXPECT_EQ(sequence.devices(), 8);
  EXPECT_EQ(to_string(sequence), "K,P2");
  const auto read = parse_sequence("K,P2", "BMNK", true);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, sequence);
  EXPECT_EQ(to_string(PartitionSequence{}), "-");
  EXPECT_EQ(parse_sequence("-", "BMNK", true)->size(), 0);
}

// Two bits over one dimension and P are X,X or P2; the dimension comes first.
TEST(PartitionSequence, EnumerationIsInOrder) {
  const auto all = enumerate_sequences(2, "BM", true);
  std::vector<std::string> texts;
  for (const PartitionSequence& sequence : all) texts.push_back(to_string(sequence));
  EXPECT_EQ(texts, (std::vector<std::string>{"B,B", "B,M", "M,B", "M,M", "P2"}));
}

// The size of the linear's space, 2 … 64 devices (a(n) = 4·a(n−1) + Σ a(n−2k)).
TEST(PartitionSequence, LinearSpaceHasTheKnownSize) {
  const std::vector<std::int64_t> expected = {4, 17, 72, 306, 1300, 5524};
  for (int bits = 1; bits <= 6; ++bits) {
    EXPECT_EQ(enumerate_sequences(bits, "BMNK", true).size(),
              static_cast<std::size_t>(expected[static_cast<std::size_t>(bits) - 1]));
    EXPECT_EQ(count_sequences(bits, 4, true), expected[static_cast<std::size_t>(bits) - 1]);
    EXPECT_EQ(count_sequences(bits, 4, false), std::int64_t{1} << (2 * bits));
    EXPECT_EQ(enumerate_sequences(bits, "BMNK", false).size(), std::size_t{1} << (2 * bits));
  }
  EXPECT_EQ(enumerate_sequences(0, "BMNK", true).size(), 1u);
}

TEST(PartitionSequence, TextRoundTripsAndNoTwoAreEqual) {
  for (int bits = 0; bits <= 6; ++bits) {
    std::set<std::string> texts;
    for (const PartitionSequence& sequence : enumerate_sequences(bits, "BMNK", true)) {
      EXPECT_EQ(sequence.bits(), bits);
      const std::string text = to_string(sequence);
      EXPECT_TRUE(texts.insert(text).second) << text;
      const auto read = parse_sequence(text, "BMNK", true);
      ASSERT_TRUE(read.ok()) << text;
      EXPECT_EQ(*read, sequence) << text;
    }
  }
}

TEST(PartitionSequence, BadTextIsAnError) {
  const auto message = [](std::string_view text, std::string_view letters = "BMNK", bool primitive = true) {
    const auto read = parse_sequence(text, letters, primitive);
    return read.ok() ? std::string() : read.error().message();
  };
  EXPECT_EQ(
      message("K,Q"),
      "partition sequence \"K,Q\": found part \"Q\"; expected parts of B, M, N, K or P2, P4, P8 …, joined by commas; hint: \"-\" "
      "is the sequence of one device");
  for (const char* text : {"", "K,", ",K", "K,,M", "P", "P1", "P3", "P2x", "P-2", "P64", "k", "KM", "P99999999999"}) {
    EXPECT_NE(message(text), "") << text;
  }
  EXPECT_NE(message("P2", "BMH", false), "");
  EXPECT_EQ(message("P32"), "");
  EXPECT_NE(message("P32,B").find("1024 devices"), std::string::npos);
}

}  // namespace
}  // namespace espalier::partition
