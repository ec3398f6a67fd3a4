// SPDX-License-Identifier: Apache-2.0
#include "runtime/agreement.h"

#include "runtime/testing.h"

namespace espalier::runtime::testing::agreement_test {
namespace {

Error some_error(const std::string& where) { return {ErrorKind::limit, where, "found this", "that", "try it"}; }

TEST(Agreement, OneRankAgreesWithItself) {
  EXPECT_TRUE(agreed({}, nullptr).ok());
  const Status failed = agreed(some_error("here"), nullptr);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message(), some_error("here").message());
  EXPECT_EQ(failed.error().kind, ErrorKind::limit);
  EXPECT_EQ(texts_of_all("text", nullptr), std::vector<std::string>{"text"});
}

TEST(Agreement, TheErrorOfTheLowestRankCounts) {
  as_group(3, [](Communicator& group) {
    EXPECT_TRUE(agreed({}, &group).ok());
    const Status own = group.rank() == 0 ? Status() : Status(some_error("rank " + std::to_string(group.rank())));
    const Status all = agreed(own, &group);
    ASSERT_FALSE(all.ok());
    EXPECT_EQ(all.error().message(), some_error("rank 1").message());
  });
}

TEST(Agreement, TextsAreByRankAndCut) {
  as_group(2, [](Communicator& group) {
    const auto texts = texts_of_all(group.rank() == 0 ? "" : std::string(5000, 'x'), &group);
    ASSERT_EQ(texts.size(), 2u);
    EXPECT_EQ(texts[0], "");
    EXPECT_GE(texts[1].size(), 2000u);
    EXPECT_EQ(texts[1], std::string(texts[1].size(), 'x'));
  });
}

// A message of a library below may have several lines.
TEST(Agreement, FieldsOfSeveralLinesStayFields) {
  const Error error{ErrorKind::bad_input, "a file", "line one\nline two", "no lines", "a hint"};
  const Status all = agreed(error, nullptr);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().expected, "no lines");
  EXPECT_EQ(all.error().hint, "a hint");
  EXPECT_NE(all.error().found.find("line two"), std::string::npos);
}

// Four fields of any length fit into one message, each cut by itself.
TEST(Agreement, LongFieldsLeaveRoomForTheOthers) {
  const Error error{ErrorKind::usage, std::string(3000, 'a'), std::string(3000, 'b'), std::string(3000, 'c'), "the hint"};
  const Status all = agreed(error, nullptr);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().kind, ErrorKind::usage);
  EXPECT_EQ(all.error().where, std::string(480, 'a'));
  EXPECT_EQ(all.error().hint, "the hint");
}

}  // namespace
}  // namespace espalier::runtime::testing::agreement_test
