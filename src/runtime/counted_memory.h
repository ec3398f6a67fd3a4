// SPDX-License-Identifier: Apache-2.0
// How much memory the tensors of this process hold, and held at most: an allocator around that of libtorch, which
// counts what it hands out. Messages that Gloo has under way are not tensors and not counted.
#pragma once

#include <atomic>
#include <cstdint>

namespace espalier::runtime {

struct CountedMemory {
  std::atomic<std::int64_t> bytes{0}, peak{0};
  /// The peak counts from now on.
  void restart() { peak = bytes.load(); }
};

/// From now on all tensors of the process are counted. Called once, before the first tensor; what it returns lives as
/// long as the process.
CountedMemory& count_tensors();

}  // namespace espalier::runtime
