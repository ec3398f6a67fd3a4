// SPDX-License-Identifier: Apache-2.0
// Implements a plain parallel loop. Work items are independent and write to their own slots, so that the result does
// not depend on the number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace espalier::base {

inline int hardware_threads() {
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
}

/// Calls f(index, worker) for every index < count; worker < threads. Rethrows the first exception.
template <class F>
void parallel_for(std::size_t count, int threads, std::size_t grain, F&& f) {
  if (threads <= 1 || count <= grain) {
    for (std::size_t i = 0; i < count; ++i) f(i, 0);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&](int worker) {
    try {
      for (std::size_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain))
        for (std::size_t i = begin; i < count && i < begin + grain; ++i) f(i, worker);
    } catch (...) {
      const std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work, t);
  work(0);
  for (auto& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace espalier::base
