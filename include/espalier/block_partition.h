// SPDX-License-Identifier: Apache-2.0
// How the operators of a transformer block are partitioned, one by one, over the devices of a tensor group:
// Strategy::partition. The text is that of plan/operator_partition.h, "attn.qkv K,P2; attn.core H,H; …". It is parsed
// once, where the value is made; copies share what was parsed, so that a strategy is cheap to copy and nobody parses on
// the way. Values are equal, and ordered, as their texts.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier {

struct OperatorPartition;

class BlockPartition {
 public:
  /// None: the block is spread by tensor parallelism. Its text is empty.
  BlockPartition() = default;
  /// Any text; one that cannot be read is kept as it is, and refused by rule operator-partition.
  explicit BlockPartition(std::string_view text);

  [[nodiscard]] bool empty() const { return parsed_ == nullptr; }
  [[nodiscard]] const std::string& text() const;
  /// The operators in the order of the text, or why the text cannot be read. None has no operators: that is an error
  /// too.
  [[nodiscard]] const Result<std::vector<OperatorPartition>>& operators() const;
  /// The layout in which a block takes and leaves the residual stream: the sequence of its last operator without R at
  /// the end; "" where every device holds it whole.
  [[nodiscard]] const std::string& boundary() const;

  friend bool operator==(const BlockPartition& a, const BlockPartition& b) {
    return a.parsed_ == b.parsed_ || a.text() == b.text();
  }
  friend std::strong_ordering operator<=>(const BlockPartition& a, const BlockPartition& b) {
    return a.parsed_ == b.parsed_ ? std::strong_ordering::equal : a.text() <=> b.text();
  }

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;  ///< immutable, shared by copies; null: none
};

}  // namespace espalier
