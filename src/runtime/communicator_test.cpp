// SPDX-License-Identifier: Apache-2.0
// Tests a group of one rank, groups of threads, and how a meeting fails. Collectives of processes of 2, 3 and 4 ranks
// are in tests/runtime/communicator_test.cpp.
#include "runtime/communicator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>

#include "runtime/testing.h"

namespace espalier::runtime::testing::communicator_test {
namespace {

using at::Tensor;

TEST(Communicator, CausesHaveNoStack) {
  EXPECT_EQ(cause_of(std::runtime_error("Connection closed by peer\nException raised from send at x.cpp:5\nframe #0: y")),
            "Connection closed by peer");
  EXPECT_EQ(cause_of(std::runtime_error("timed out.\nframe #0: y\nframe #1: z")), "timed out");
  EXPECT_EQ(cause_of(std::runtime_error("two\nlines. ")), "two lines");
  EXPECT_EQ(cause_of(std::runtime_error("")), "");
}

// A group of one sends nothing, and needs no other rank to be made.
TEST(Communicator, OneRankKeepsItsTensors) {
  Meeting meeting({});
  const auto group = meeting.group("alone", {0});
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->rank(), 0);
  const Tensor x = tensor({3}, {1, 2, 3});
  Tensor sum = x.clone(), gathered = at::zeros({3}), scattered = at::zeros({3}), exchanged = at::zeros({3}),
         rows = at::zeros({3, 1});
  group->all_reduce(sum);
  group->all_reduce_maximum(sum);
  group->all_gather(gathered, x);
  group->reduce_scatter(scattered, x);
  group->all_to_all(exchanged, x);
  group->all_to_all_rows(rows, {3}, x.view({3, 1}), {3});
  group->barrier();
  for (const Tensor& found : {sum, gathered, scattered, exchanged, rows}) expect_list(found, {1, 2, 3});
}

TEST(Communicator, OneRankAgreesAndIsInNoOtherGroup) {
  Meeting meeting({});
  EXPECT_EQ(meeting.world(), 1);
  EXPECT_TRUE(meeting.agree("name", "text").ok());
  EXPECT_EQ(meeting.group("others", {1, 2}), nullptr);
}

TEST(Communicator, RanksOfAGroupAreNumberedByItsMembers) {
  as_ranks(3, [](Meeting& meeting) {
    const auto group = meeting.group("two", {0, 2});
    ASSERT_EQ(group == nullptr, meeting.rank() == 1);
    if (group == nullptr) return;
    EXPECT_EQ(group->size(), 2);
    EXPECT_EQ(group->rank(), meeting.rank() / 2);
    Tensor sum = tensor({1}, {static_cast<float>(meeting.rank())});
    group->all_reduce(sum);
    expect_list(sum, {2});
  });
}

// Member m sends m + 1 rows to each member, so that member 0 receives rows of 0, then two of 1.
TEST(Communicator, RowsOfUnequalNumbers) {
  as_group(2, [](Communicator& group) {
    const std::int64_t own = group.rank() + 1;
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Tensor in = at::zeros({2 * own, 2}, at::kFloat).fill_(static_cast<float>(own)).to(type);
      Tensor out = at::zeros({3, 2}, type);
      group.all_to_all_rows(out, {1, 2}, in, {own, own});
      expect_list(out, {1, 1, 2, 2, 2, 2});
    }
  });
}

// Sums of bf16 are computed in fp32: 256 + 1 + 1 is 258, but 257 is no number of bf16.
TEST(Communicator, SumsOfHalfPrecisionAreRoundedOnce) {
  as_group(3, [](Communicator& group) {
    Tensor x = tensor({1}, {group.rank() == 0 ? 256.0F : 1.0F}).to(at::kBFloat16);
    group.all_reduce(x);
    expect_list(x, {258}, 0);
  });
}

// Three tensors are joined into one message and stay three.
TEST(Communicator, SeveralTensorsTravelTogether) {
  as_group(2, [](Communicator& group) {
    const float own = static_cast<float>(group.rank() + 1);
    const Tensor a = tensor({2}, {own, 0}), b = tensor({1, 2}, {0, own}), c = tensor({1}, {10 * own});
    group.all_reduce({a, b, c});
    expect_list(a, {3, 0});
    expect_list(b, {0, 3});
    expect_list(c, {30});
    const Tensor first = at::empty({2}), second = at::empty({4});
    group.all_gather({first, second}, {tensor({1}, {own}), tensor({2}, {own, -own})});
    expect_list(first, {1, 2});
    expect_list(second, {1, -1, 2, -2});
    const Tensor part = at::empty({1}), other = at::empty({2});
    group.reduce_scatter({part, other}, {tensor({2}, {1, 2}), tensor({4}, {1, 2, 3, 4})});
    expect_list(part, {group.rank() == 0 ? 2.0 : 4.0});
    expect_list(other, group.rank() == 0 ? std::vector<double>{2, 4} : std::vector<double>{6, 8});
    EXPECT_EQ(group.calls().collectives, 3);
    EXPECT_EQ(group.calls().messages, 0);
    EXPECT_GT(group.busy_seconds(), 0);
  });
}

TEST(Communicator, MessagesOfDifferentTagsDoNotMix) {
  as_group(2, [](Communicator& group) {
    const int other = 1 - group.rank();
    const Tensor one = tensor({1}, {1}), two = tensor({1}, {2}), first = at::empty({1}), second = at::empty({1});
    Message a = group.receive(first, other, 1), b = group.receive(second, other, 2);
    Message later = group.send(two, other, 2), sooner = group.send(one, other, 1);
    for (Message* message : {&a, &b, &later, &sooner}) group.finish(*message);
    expect_list(first, {1});
    expect_list(second, {2});
    a.wait();  // a message that has ended waits for nothing
    EXPECT_EQ(group.calls().messages, 2);
  });
}

// ---- meetings that fail -------------------------------------------------------------------------------------------

TEST(Meeting, AllRanksLearnWhoDiffers) {
  as_ranks(3, [](Meeting& meeting) {
    EXPECT_TRUE(meeting.agree("equal", "seed 1").ok());
    const Status failed = meeting.agree("different", meeting.rank() == 2 ? "seed 2" : "seed 1");
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().where, "rank 2");
    EXPECT_EQ(failed.error().found, "seed 2");
    EXPECT_EQ(failed.error().expected, "the settings of rank 0: seed 1");
  });
}

TEST(Meeting, WithoutRankZeroThereIsNoPort) {
  const ScratchFolder folder;
  Rendezvous at;
  at.file = folder.file("port");
  at.rank = 1;
  at.world = 2;
  at.timeout_seconds = 0.05;
  try {
    const Meeting meeting(at);
    ADD_FAILURE() << "met nobody";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "rank 0 did not write its port into " + at.file);
  }
}

TEST(Meeting, ARankThatDoesNotComeIsNamed) {
  const ScratchFolder folder;
  Rendezvous at;
  at.file = folder.file("port");
  at.world = 2;
  at.timeout_seconds = 1;
  Meeting meeting(at);
  try {
    EXPECT_FALSE(meeting.agree("name", "text").ok());
    ADD_FAILURE() << "agreed with nobody";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "rank 1 did not join within the time-out");
  }
}

TEST(Meeting, APortThatCannotBeWrittenIsAnError) {
  Rendezvous at;
  at.file = "/nonexistent/port";
  at.world = 2;
  at.timeout_seconds = 1;
  EXPECT_THROW(Meeting meeting(at), std::runtime_error);
}

}  // namespace
}  // namespace espalier::runtime::testing::communicator_test
