// SPDX-License-Identifier: Apache-2.0
// Where the operators of a partitioned block (plan/block_graph.h) want and leave their tensors, as numbered layouts
// (partition_layouts.h).
#pragma once

#include <cstdint>
#include <map>

#include "cost/partition_layouts.h"
#include "plan/block_graph.h"

namespace espalier::cost {

/// Layouts of a block's tensors, numbered. Not to be shared by threads.
class BlockLayouts {
 public:
  explicit BlockLayouts(const PartitionFabric& fabric) : table_(fabric) {}
  [[nodiscard]] const LayoutTable& table() const { return table_; }
  /// Inputs: where the operator reads them, and where it leaves their gradients; outputs: where it leaves them, and
  /// where it wants theirs.
  LayoutId of(const PartitionedOperator& node, const partition::PartitionSequence& sequence, int tensor, bool gradient);
  /// Every device holds everything.
  LayoutId replicated() { return table_.plain({}); }

 private:
  LayoutTable table_;
  std::map<std::uint64_t, LayoutId> primitive_;
};

}  // namespace espalier::cost
