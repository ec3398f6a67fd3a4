// SPDX-License-Identifier: Apache-2.0
// Runs tasks one after the other on a separate thread, concurrently with a rank's computations. Gradients are reduced
// and parameters gathered on this queue, which is the Program's stream `data`. A task that throws ends the stream;
// wait() throws the same exception.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace espalier::runtime {

class Queue {
 public:
  Queue() : thread_([this] { work(); }) {}
  ~Queue() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Adds a task and returns its number.
  std::int64_t add(std::function<void()> task) {
    std::int64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      number = ++added_;
    }
    changed_.notify_all();
    return number;
  }

  /// Waits until task `number` has run. Number 0 waits for nothing.
  void wait(std::int64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number || failed_ != nullptr; });
    if (failed_ != nullptr) std::rethrow_exception(failed_);
  }
  void wait_for_all() { wait(added_); }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
      if (closed_ || failed_ != nullptr) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      std::exception_ptr failed;
      try {
        task();
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      ++done_;
      failed_ = failed;
      changed_.notify_all();
      if (failed_ != nullptr) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::int64_t added_ = 0, done_ = 0;
  bool closed_ = false;
  std::exception_ptr failed_;
  std::thread thread_;  // last, so that it starts after the other members exist
};

}  // namespace espalier::runtime
