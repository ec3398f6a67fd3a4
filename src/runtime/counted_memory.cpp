// SPDX-License-Identifier: Apache-2.0
#include "runtime/counted_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace espalier::runtime {
namespace {

/// Precedes the memory of a tensor and holds that memory and its counter. Libraries below libtorch request memory and
/// keep only its address (c10::Allocator::raw_allocate), so that everything must be found from the address.
struct CountedBlock {
  c10::DataPtr data;
  std::int64_t bytes = 0;
  CountedMemory* counts = nullptr;
};

constexpr std::size_t kBlockRoom = 64;  // tensors stay aligned to it
static_assert(sizeof(CountedBlock) <= kBlockRoom);

void release(void* memory) {
  auto* block = reinterpret_cast<CountedBlock*>(static_cast<char*>(memory) - kBlockRoom);
  block->counts->bytes -= block->bytes;
  const c10::DataPtr data = std::move(block->data);  // owns the memory that the block lies in
  block->~CountedBlock();
}

class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& below) : below_(below) {}

  c10::DataPtr allocate(std::size_t n) override {
    c10::DataPtr data = below_.allocate(n + kBlockRoom);
    const c10::Device device = data.device();
    auto* begin = static_cast<char*>(data.get());
    new (begin) CountedBlock{std::move(data), static_cast<std::int64_t>(n), &counts_};
    const std::int64_t now = counts_.bytes += static_cast<std::int64_t>(n);
    std::int64_t most = counts_.peak;
    while (now > most && !counts_.peak.compare_exchange_weak(most, now)) {
    }
    return {begin + kBlockRoom, begin + kBlockRoom, &release, device};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
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
