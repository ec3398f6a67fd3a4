// SPDX-License-Identifier: Apache-2.0
// BlockPartition describes how the operators of a transformer block are partitioned, one by one, over the devices of
// a tensor group (Strategy::partition). Its text form is defined in plan/operator_partition.h: "attn.qkv K,P2;
// attn.core H,H; …". The constructor parses the text once, and copies share the result, so a strategy is cheap to
// copy. Values compare and sort like their texts.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier {

struct OperatorPartition;

/// Holds the partition of a block's operators. It is immutable and cheap to copy.
class BlockPartition {
 public:
  /// Creates an empty partition: tensor parallelism splits the block, and the text is empty.
  BlockPartition() = default;
  /// Accepts any text. A text that cannot be parsed is kept as it is, and the rule operator-partition rejects it.
  explicit BlockPartition(std::string_view text);

  [[nodiscard]] bool empty() const { return parsed_ == nullptr; }
  [[nodiscard]] const std::string& text() const;
  /// Returns the operators in the order of the text, or why the text cannot be parsed. An empty partition has no
  /// operators and returns an error.
  [[nodiscard]] const Result<std::vector<OperatorPartition>>& operators() const;
  /// Returns the layout of the residual stream before and after a block: the sequence of its last operator without
  /// trailing R. Empty: every device holds the whole stream.
  [[nodiscard]] const std::string& boundary() const;

  friend bool operator==(const BlockPartition& a, const BlockPartition& b) {
    return a.parsed_ == b.parsed_ || a.text() == b.text();
  }
  friend std::strong_ordering operator<=>(const BlockPartition& a, const BlockPartition& b) {
    return a.parsed_ == b.parsed_ ? std::strong_ordering::equal : a.text() <=> b.text();
  }

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;  ///< immutable, shared by copies; null: empty partition
};

}  // namespace espalier
