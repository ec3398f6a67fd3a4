// SPDX-License-Identifier: Apache-2.0
#include "cost/block_layouts.h"

#include <algorithm>
#include <array>

namespace espalier::cost {

using partition::PartitionSequence;

/// Layouts of a sequence with P are counted device by device. They are kept for all linears, whose axes are the same.
LayoutId BlockLayouts::of(const PartitionedOperator& node, const PartitionSequence& sequence, int tensor, bool gradient) {
  const auto& axes = node.shape.tensors[static_cast<std::size_t>(tensor)].axes;
  const bool primitive = std::any_of(sequence.begin(), sequence.end(), [](const auto& part) { return part.primitive(); });
  if (!primitive) {
    AxisMasks masks{};
    std::array<int, partition::kMaxAxes> digits{};
    int bit = sequence.bits();
    for (const auto& part : sequence) {
      --bit;
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        if (axes[axis].letter != part.dimension || std::int64_t{1} << (digits[axis] + 1) > axes[axis].size) continue;
        masks[axis] = static_cast<std::uint16_t>(masks[axis] | (1u << bit));
        ++digits[axis];
      }
    }
    return table_.plain(masks);
  }
  std::uint64_t key = static_cast<std::uint64_t>(tensor) * 2 + gradient + 1;
  for (const auto& part : sequence)
    key = key * 32 + static_cast<std::uint64_t>(part.primitive() ? part.k : part.dimension - 'A' + 6);
  const auto [found, added] = primitive_.try_emplace(key, 0);
  if (added) {
    const bool output = node.shape.tensors[static_cast<std::size_t>(tensor)].role == partition::TensorRole::output;
    found->second = table_.intern(output     ? gradient ? partition::backward_needed(node.shape, sequence)
                                                        : partition::forward_held(node.shape, sequence)
                                      : gradient ? partition::backward_held(node.shape, sequence, tensor)
                                             : partition::forward_needed(node.shape, sequence, tensor));
  }
  return found->second;
}

}  // namespace espalier::cost
