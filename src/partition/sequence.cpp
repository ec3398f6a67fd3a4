// SPDX-License-Identifier: Apache-2.0
#include "partition/sequence.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/invariant.h"

namespace espalier::partition {

namespace {

/// Returns k for the text of a P, such as 2 for "P4"; nothing unless it is 2^k with k ≥ 1 that fits.
std::optional<int> parse_primitive(std::string_view part) {
  int side = 0;
  const auto [end, error] = std::from_chars(part.data() + 1, part.data() + part.size(), side);
  if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
  for (int k = 1; 2 * k <= kMaxBits; ++k) {
    if (side == 1 << k) return k;
  }
  return std::nullopt;
}

std::string expected_parts(std::string_view dimensions, bool with_primitive) {
  std::string text = "parts of ";
  for (const char c : dimensions) text += std::string(text.back() == ' ' ? "" : ", ") + c;
  return with_primitive ? text + " or P2, P4, P8 …, joined by commas" : text + ", joined by commas";
}

void extend(int bits, std::string_view dimensions, bool with_primitive, const PartitionSequence& prefix,
            std::vector<PartitionSequence>& all) {
  if (bits == 0) {
    all.push_back(prefix);
    return;
  }
  const auto with = [&](BasicPartition part) {
    PartitionSequence longer = prefix;
    longer.push_back(part);
    extend(bits - part.bits(), dimensions, with_primitive, longer, all);
  };
  for (const char dimension : dimensions) with(split(dimension));
  for (int k = 1; with_primitive && 2 * k <= bits; ++k) with(primitive(k));
}

}  // namespace

PartitionSequence::PartitionSequence(std::initializer_list<BasicPartition> parts) {
  for (const BasicPartition& part : parts) push_back(part);
}

void PartitionSequence::push_back(BasicPartition part) {
  ESPALIER_CHECK(bits_ + part.bits() <= kMaxBits);
  parts_[static_cast<std::size_t>(size_)] = part;
  ++size_;
  bits_ = static_cast<std::int8_t>(bits_ + part.bits());
}

std::string to_string(const PartitionSequence& sequence) {
  if (sequence.size() == 0) return "-";
  std::string text;
  for (const BasicPartition& part : sequence) {
    if (!text.empty()) text += ',';
    text += part.primitive() ? "P" + std::to_string(1 << part.k) : std::string(1, part.dimension);
  }
  return text;
}

Result<PartitionSequence> parse_sequence(std::string_view text, std::string_view dimensions, bool with_primitive) {
  PartitionSequence sequence;
  if (text == "-") return sequence;
  const auto wrong = [&](std::string_view part) {
    return Error{ErrorKind::bad_input, "partition sequence \"" + std::string(text) + "\"", "part \"" + std::string(part) + "\"",
                 expected_parts(dimensions, with_primitive), "\"-\" is the sequence of one device"};
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    std::optional<BasicPartition> basic;
    if (part.size() == 1 && dimensions.find(part[0]) != std::string_view::npos) basic = split(part[0]);
    if (part.size() > 1 && part[0] == 'P' && with_primitive) {
      if (const auto k = parse_primitive(part)) basic = primitive(*k);
    }
    if (!basic) return wrong(part);
    if (sequence.bits() + basic->bits() > kMaxBits) {
      return Error{ErrorKind::bad_input, "partition sequence \"" + std::string(text) + "\"",
                   "more than " + std::to_string(1 << kMaxBits) + " devices",
                   "at most " + std::to_string(kMaxBits) + " bits: 1 a split, 2 for P2, 4 for P4 …", ""};
    }
    sequence.push_back(*basic);
    begin = end + 1;
  }
  return sequence;
}

std::vector<PartitionSequence> enumerate_sequences(int bits, std::string_view dimensions, bool with_primitive) {
  ESPALIER_CHECK(bits >= 0 && bits <= kMaxBits);
  std::vector<PartitionSequence> all;
  extend(bits, dimensions, with_primitive, {}, all);
  return all;
}

std::int64_t count_sequences(int bits, int dimensions, bool with_primitive) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(bits) + 1, 0);
  count[0] = 1;
  for (std::size_t n = 1; n < count.size(); ++n) {
    count[n] = dimensions * count[n - 1];
    for (std::size_t used = 2; with_primitive && used <= n; used += 2) count[n] += count[n - used];
  }
  return count.back();
}

}  // namespace espalier::partition
