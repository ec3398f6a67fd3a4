// SPDX-License-Identifier: Apache-2.0
// Partition sequences: how one operator is spread over 2^n devices (PrimePar, ASPLOS 2024).
//
// Device ids are bits D = (d_1, …, d_n), d_1 the most significant: devices that differ in d_1 are farthest apart (the
// slow links). A sequence is a list of basic partitions that use up the bits from left to right:
//     split X           1 bit: dimension X in two halves
//     P_{2^k×2^k}       2k bits: the spatial-temporal primitive. 2^{2k} devices form a torus (r, c). M, N and K of a
//                       linear are cut into 2^k slices each. A device works on one (M, N, K) sub-product after the
//                       other in 2^k steps, while the tiles that it needs travel around rings. It replicates nothing
//                       and needs no collective.
// Number of sequences over four dimensions: a(n) = 4·a(n−1) + Σ_{k≥1} a(n−2k), a(0) = 1. From 2 to 64 devices it is
// 4, 17, 72, 306, 1300, 5524.
//
// In text form, commas join the parts, a dimension is its letter, and P_{2^k×2^k} is P and 2^k: "K,P2" = K split by
// d_1, P_{2×2} over (d_2, d_3). The empty sequence (one device) is "-".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::partition {

inline constexpr int kMaxBits = 10;  ///< 1024 devices

/// Describes one part of a sequence: a split (dimension set, k = 0) or the primitive (dimension 0, k ≥ 1).
struct BasicPartition {
  char dimension = 0;  ///< upper-case letter of the operator's dimension; 'P' never is one
  std::int8_t k = 0;   ///< the exponent k of P_{2^k×2^k}
  [[nodiscard]] bool primitive() const { return k > 0; }
  [[nodiscard]] int bits() const { return primitive() ? 2 * k : 1; }
  bool operator==(const BasicPartition&) const = default;
};
constexpr BasicPartition split(char dimension) { return {dimension, 0}; }
constexpr BasicPartition primitive(int k) { return {0, static_cast<std::int8_t>(k)}; }

/// Holds at most kMaxBits parts; a small value without allocation.
class PartitionSequence {
 public:
  PartitionSequence() = default;
  PartitionSequence(std::initializer_list<BasicPartition> parts);
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const BasicPartition& operator[](int i) const { return parts_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const BasicPartition* begin() const { return parts_.data(); }
  [[nodiscard]] const BasicPartition* end() const { return parts_.data() + size_; }
  /// Returns the bits used up so far.
  [[nodiscard]] int bits() const { return bits_; }
  [[nodiscard]] int devices() const { return 1 << bits_; }
  /// Appends a part, which must fit: bits() stays ≤ kMaxBits.
  void push_back(BasicPartition part);
  bool operator==(const PartitionSequence&) const = default;

 private:
  std::array<BasicPartition, kMaxBits> parts_{};
  std::int8_t size_ = 0, bits_ = 0;
};

/// Returns the text form, such as "K,P2"; "-" when empty.
std::string to_string(const PartitionSequence& sequence);
/// Reads what to_string writes. Letters must be among `dimensions`; P is accepted only `with_primitive`.
Result<PartitionSequence> parse_sequence(std::string_view text, std::string_view dimensions, bool with_primitive);

/// Returns all sequences of exactly `bits` bits over the dimensions (distinct letters) and, `with_primitive`, P's.
/// They are ordered by first part (dimensions as given, then P_{2×2}, P_{4×4} …), then by the second, and so on.
std::vector<PartitionSequence> enumerate_sequences(int bits, std::string_view dimensions, bool with_primitive);
/// Returns their number, without building them.
std::int64_t count_sequences(int bits, int dimensions, bool with_primitive);

}  // namespace espalier::partition
