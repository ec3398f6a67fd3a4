// SPDX-License-Identifier: Apache-2.0
#include "answer_file.h"

namespace espalier::golden {
namespace {

TEST(AnswerFile, EveryLineThatDiffersIsNamed) {
  const Answers expected = {{"same", "1"}, {"other", "2"}, {"gone", "3"}, {"left out", "4"}};
  const std::vector<AnswerLine> lines = {{"same", "1"}, {"other", "5"}, {"left out", {}}, {"new", "6"}};
  const std::vector<std::string> found = differences(expected, lines);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], "other\n  expected: 2\n  actual:   5");
  EXPECT_EQ(found[1], "new\n  expected: (no line)\n  actual:   6");
  EXPECT_EQ(found[2], "gone\n  expected: 3\n  actual:   (no line)");
}

TEST(AnswerFile, ALineThatIsLeftOutMustStandInTheFile) {
  EXPECT_EQ(differences({}, {{"left out", {}}}).size(), 1U);
  EXPECT_TRUE(differences({{"left out", "4"}}, {{"left out", {}}}).empty());
}

}  // namespace
}  // namespace espalier::golden
