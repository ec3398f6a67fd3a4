// SPDX-License-Identifier: Apache-2.0
#include "runtime/counted_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

namespace espalier::runtime {
namespace {

/// What stands behind a tensor: the memory itself, and who counts it.
struct Block {
  c10::DataPtr data;
  std::int64_t bytes = 0;
  CountedMemory* counts = nullptr;
};

void release(void* context) {
  const auto* block = static_cast<Block*>(context);
  block->counts->bytes -= block->bytes;
  delete block;
}

class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& below) : below_(below) {}

  c10::DataPtr allocate(std::size_t n) override {
    auto* block = new Block{below_.allocate(n), static_cast<std::int64_t>(n), &counts_};
    const std::int64_t now = counts_.bytes += block->bytes;
    std::int64_t most = counts_.peak;
    while (now > most && !counts_.peak.compare_exchange_weak(most, now)) {
    }
    return {block->data.get(), block, &release, block->data.device()};
  }
  void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }

  CountedMemory& counts() { return counts_; }

 private:
  c10::Allocator& below_;
  CountedMemory counts_;
};

}  // namespace

CountedMemory& count_tensors() {
  auto* allocator = new CountingAllocator(*c10::GetCPUAllocator());  // libtorch keeps it until the process ends
  c10::SetCPUAllocator(allocator, 1);
  return allocator->counts();
}

}  // namespace espalier::runtime
