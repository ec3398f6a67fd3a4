// SPDX-License-Identifier: Apache-2.0
// Tests collectives of 2, 3 and 4 ranks, each a process. Small sizes go from every rank to every rank, larger ones
// round a ring; expected results are computed by hand. Member m has the numbers 1000·m + i.
#include "runtime/communicator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace espalier::runtime::testing {
namespace {

using at::Tensor;

/// Runs `body` as every rank of a group of `size`, for each `direct`: messages up to `direct` bytes go from every
/// rank to every rank. Ranks are processes: this one, which other tests fork, never starts a thread of libtorch's.
void as_group(int size, const std::vector<std::int64_t>& direct, const std::function<void(Communicator&)>& body) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("espalier-communicator-" + std::to_string(::getpid()) + "-" + std::to_string(size));
  std::filesystem::remove(file);
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  const auto be_rank = [&](int rank) {
    Rendezvous at;
    at.file = file.string();
    at.rank = rank;
    at.world = size;
    at.timeout_seconds = 60;
    Meeting meeting(at);
    for (const std::int64_t bytes : direct) {
      SCOPED_TRACE(std::to_string(size) + " ranks, direct up to " + std::to_string(bytes));
      meeting.set_direct_bytes(bytes);
      const auto group = meeting.group("test" + std::to_string(bytes), members);
      body(*group);
      group->barrier();
    }
    EXPECT_TRUE(meeting.agree("end", "the same").ok());  // the store ends with rank 0
  };
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      be_rank(rank);
      std::fflush(nullptr);
      std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    ranks.push_back(pid);
  }
  for (const pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << "a rank failed";
  }
  std::filesystem::remove(file);
}

Tensor numbers(int member, std::int64_t count) { return at::arange(count, at::kFloat) + 1000.0 * member; }

void expect_equal(const Tensor& found, const Tensor& expected, const char* what, int rank) {
  EXPECT_TRUE(found.equal(expected)) << what << " of rank " << rank;
}

/// Runs all collectives over tensors of 12·k floats, and of sizes that do not divide.
void all_collectives(Communicator& group) {
  const int n = group.size(), here = group.rank();
  const float all = static_cast<float>(n), members = 1000.0F * static_cast<float>(n * (n - 1) / 2);
  for (const std::int64_t count : {12, 120}) {
    const std::int64_t part = count / n;
    Tensor sum = numbers(here, count + 1);
    group.all_reduce(sum);
    expect_equal(sum, at::arange(count + 1, at::kFloat) * all + members, "all-reduce", here);
    Tensor largest = numbers(here, count);
    group.all_reduce_maximum(largest);
    expect_equal(largest, numbers(n - 1, count), "maximum", here);
    Tensor whole = at::empty({count});
    group.all_gather(whole, numbers(here, part));
    Tensor scattered = at::empty({part}), exchanged = at::empty({count});
    group.reduce_scatter(scattered, numbers(here, count));
    expect_equal(scattered, (at::arange(count, at::kFloat) * all + members).narrow(0, here * part, part), "reduce-scatter", here);
    group.all_to_all(exchanged, numbers(here, count));
    for (int m = 0; m < n; ++m) {
      expect_equal(whole.narrow(0, m * part, part), numbers(m, part), "all-gather", here);
      expect_equal(exchanged.narrow(0, m * part, part), numbers(m, count).narrow(0, here * part, part), "all-to-all", here);
    }
  }
}

/// Tests parts of unequal sizes: member m has m + 1 elements, so the first has a single one.
void unequal_parts(Communicator& group) {
  const int n = group.size(), here = group.rank();
  std::vector<std::int64_t> sizes;
  for (int m = 0; m < n; ++m) sizes.push_back(m + 1);
  Tensor whole = at::empty({std::int64_t{n} * (n + 1) / 2}), sum = at::empty({here + 1});
  group.all_gather(whole, numbers(here, here + 1), sizes);
  group.reduce_scatter(sum, whole, sizes);
  std::int64_t first = 0;
  for (int m = 0; m < n; ++m) {
    expect_equal(whole.narrow(0, first, m + 1), numbers(m, m + 1), "all-gather of unequal parts", here);
    if (m == here) expect_equal(sum, numbers(m, m + 1) * static_cast<float>(n), "reduce-scatter of unequal parts", here);
    first += m + 1;
  }
}

TEST(Communicator, PartsMayBeOfUnequalSizes) {
  for (const int size : {2, 3}) as_group(size, {kDirectBytes}, unequal_parts);
}

/// Tensors have 48 and 480 bytes, and `direct` limits the bytes from every member in one exchange. They go direct,
/// direct in two exchanges, or by rings.
TEST(Communicator, CollectivesAreTheSameWhicheverWayTheyGo) {
  for (const int size : {2, 3, 4}) as_group(size, {0, 64, 600, kDirectBytes}, all_collectives);
}

/// Messages sent during a computation arrive in order; calls are counted.
TEST(Communicator, MessagesFromAThreadOfTheirOwnKeepTheirOrder) {
  as_group(2, {kDirectBytes}, [](Communicator& group) {
    const int other = 1 - group.rank();
    std::vector<Tensor> rooms;
    std::vector<Message> under_way;
    for (int k = 0; k < 5; ++k) {
      rooms.push_back(at::empty({100}));
      under_way.push_back(group.receive(rooms.back(), other, 7));
      under_way.push_back(group.send_beside(numbers(10 * group.rank() + k, 100), other, 7));
    }
    for (Message& message : under_way) group.finish(message);
    for (int k = 0; k < 5; ++k) expect_equal(rooms[static_cast<std::size_t>(k)], numbers(10 * other + k, 100), "message", other);
    EXPECT_EQ(group.calls().messages, 5);
  });
}

}  // namespace
}  // namespace espalier::runtime::testing
