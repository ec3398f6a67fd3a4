// SPDX-License-Identifier: Apache-2.0
// Tests the counter of tensors in a process of its own, since it replaces the allocator of libtorch.
#include "runtime/counted_memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

namespace espalier::runtime::counted_memory_test {
namespace {

/// Ends the process with 0 where the counts are right, otherwise with the line of the first wrong one.
[[noreturn]] void count() {
  const auto expect = [](bool right, int line) {
    if (!right) std::_Exit(line);
  };
  CountedMemory& memory = count_tensors();
  const std::int64_t before = memory.bytes;
  {
    const at::Tensor x = at::empty({1000}, at::kFloat);
    expect(memory.bytes == before + 4000, __LINE__);
    expect(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 64 == 0, __LINE__);
    const at::Tensor view = x.narrow(0, 0, 10);  // shares the memory
    expect(memory.bytes == before + 4000, __LINE__);
    {
      const at::Tensor y = at::empty({500}, at::kDouble);
      expect(memory.bytes == before + 8000, __LINE__);
    }
    expect(memory.bytes == before + 4000, __LINE__);
    expect(memory.peak == before + 8000, __LINE__);
    memory.restart();
    expect(memory.peak == before + 4000, __LINE__);
  }
  expect(memory.bytes == before, __LINE__);
  std::_Exit(0);
}

TEST(CountedMemoryDeathTest, CountsBytesAndTheirPeak) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(count(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace espalier::runtime::counted_memory_test
