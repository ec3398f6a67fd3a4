// SPDX-License-Identifier: Apache-2.0
// Tests the queue on which gradients are reduced: order, waits, and tasks that throw.
#include "runtime/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace espalier::runtime::queue_test {
namespace {

TEST(Queue, TasksRunOneAfterTheOther) {
  std::vector<int> order;
  Queue queue;
  for (int k = 0; k < 100; ++k) EXPECT_EQ(queue.add([&order, k] { order.push_back(k); }), k + 1);
  queue.wait_for_all();
  ASSERT_EQ(order.size(), 100u);
  for (int k = 0; k < 100; ++k) EXPECT_EQ(order[static_cast<std::size_t>(k)], k);
}

TEST(Queue, NumberZeroWaitsForNothing) {
  std::promise<void> goes_on;
  Queue queue;
  queue.add([&] { goes_on.get_future().wait(); });
  queue.wait(0);
  goes_on.set_value();
  queue.wait_for_all();
}

TEST(Queue, AWaitEndsWithItsTask) {
  std::promise<void> goes_on;
  std::atomic<int> done = 0;
  Queue queue;
  const std::int64_t first = queue.add([&] { ++done; });
  queue.add([&] {
    goes_on.get_future().wait();
    ++done;
  });
  queue.wait(first);
  EXPECT_EQ(done, 1);
  goes_on.set_value();
  queue.wait_for_all();
  EXPECT_EQ(done, 2);
}

TEST(Queue, RunsOnAThreadOfItsOwn) {
  std::thread::id runner;
  Queue queue;
  queue.add([&] { runner = std::this_thread::get_id(); });
  queue.wait_for_all();
  EXPECT_NE(runner, std::this_thread::get_id());
}

// The task after the one that throws does not run, and every wait throws the same.
TEST(Queue, ATaskThatThrowsEndsTheStream) {
  bool ran = false;
  Queue queue;
  const std::int64_t failed = queue.add([] { throw std::runtime_error("a lost peer"); });
  const std::int64_t after = queue.add([&] { ran = true; });
  for (const std::int64_t number : {failed, after}) {
    try {
      queue.wait(number);
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "a lost peer");
    }
  }
  EXPECT_THROW(queue.wait_for_all(), std::runtime_error);
  EXPECT_FALSE(ran);
}

// A queue may be destroyed while a task runs; it ends that task and drops the others.
TEST(Queue, DestructionWaitsForTheRunningTask) {
  std::promise<void> began;
  bool ended = false, dropped = true;
  {
    Queue queue;
    queue.add([&] {
      began.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
    queue.add([&] { dropped = false; });
    began.get_future().wait();
  }
  EXPECT_TRUE(ended);
  EXPECT_TRUE(dropped);
}

}  // namespace
}  // namespace espalier::runtime::queue_test
