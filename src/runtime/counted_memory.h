// SPDX-License-Identifier: Apache-2.0
// Counts the memory that the tensors of this process hold, and its peak. An allocator around that of libtorch counts
// what it hands out. Messages that Gloo has in flight are not tensors and are not counted.
#pragma once

#include <atomic>
#include <cstdint>

namespace espalier::runtime {

struct CountedMemory {
  std::atomic<std::int64_t> bytes{0}, peak{0};
  /// Sets the peak to the present bytes.
  void restart() { peak = bytes.load(); }
};

/// Starts counting all tensors of the process. It is called once, before the first tensor; the returned counter lives
/// as long as the process.
CountedMemory& count_tensors();

}  // namespace espalier::runtime
