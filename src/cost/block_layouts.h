// SPDX-License-Identifier: Apache-2.0
// Numbered layouts (partition_layouts.h) in which the operators of a partitioned block (plan/block_graph.h) read and
// leave their tensors.
#pragma once

#include <cstdint>
#include <map>

#include "cost/partition_layouts.h"
#include "plan/block_graph.h"

namespace espalier::cost {

/// Numbers the layouts of a block's tensors, which it keeps. Threads must not share it.
class BlockLayouts {
 public:
  explicit BlockLayouts(const PartitionFabric& fabric) : table_(fabric) {}
  [[nodiscard]] const LayoutTable& table() const { return table_; }
  /// Returns the layout of a tensor. An input's is where the operator reads it, or leaves its gradient. An output's
  /// is where the operator leaves it, or expects its gradient.
  LayoutId of(const PartitionedOperator& node, const partition::PartitionSequence& sequence, int tensor, bool gradient);
  /// Returns the layout in which every device holds everything.
  LayoutId replicated() { return table_.plain({}); }

 private:
  LayoutTable table_;
  std::map<std::uint64_t, LayoutId> primitive_;
};

}  // namespace espalier::cost
