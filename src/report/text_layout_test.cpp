// SPDX-License-Identifier: Apache-2.0
// Tests texts on terminals of several widths. The smallest example is the table
//
//   plan      time     what it loses
//   aa bb cc  1.000 s  nothing
//
// of 2 + 8 + 2 + 7 + 2 + 13 = 34 columns. At width 34 it is unchanged; at 30 the widest left-aligned column shrinks
// by 4 first.
#include "report/text_layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, display_width(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return widest;
}

const std::vector<std::vector<std::string>> kPlans = {{"plan", "time", "lost time"}, {"aa bb cc", "1.000 s", "nothing"}};

TEST(TextLayout, ATableThatHasRoomStaysAsItIs) {
  const std::string as_it_is =
      "  plan         time  lost time\n"
      "  aa bb cc  1.000 s  nothing\n";
  EXPECT_EQ(lay_out(table(kPlans, {2}), 0), as_it_is);
  EXPECT_EQ(lay_out(table(kPlans, {2}), 34), as_it_is);
}

TEST(TextLayout, CellsOfLeftAlignedColumnsBreak) {
  std::vector<std::vector<std::string>> rows = kPlans;
  rows[1][2] = "exposed communication +3.246 s";  // 30 columns: 51 in all
  EXPECT_EQ(lay_out(table(rows, {2}), 40),
            "  plan         time  lost time\n"
            "  aa bb cc  1.000 s  exposed\n"
            "                       communication\n"
            "                       +3.246 s\n");
}

TEST(TextLayout, AColumnWithoutRoomStandsBelowItsRow) {
  std::vector<std::vector<std::string>> rows = kPlans;
  rows[1][2] = "exposed communication";
  EXPECT_EQ(lay_out(table(rows, {2}), 32),  // 2 + 8 + 2 + 7 + 2 leave 11 columns, fewer than a column of text needs
            "  plan         time\n"
            "  aa bb cc  1.000 s\n"
            "      lost time: exposed\n"
            "        communication\n");
}

TEST(TextLayout, FiguresAloneAreCutIntoSeveralTables) {
  const std::vector<std::vector<std::string>> rows = {{"", "first", "second"}, {"time", "1.000 s", "2.000 s"}};
  EXPECT_EQ(lay_out(table(rows, {}, ""), 14),  // 4 + 2 + 7 = 13 columns with one plan, 22 with two
            "        first\n"
            "time  1.000 s\n"
            "\n"
            "       second\n"
            "time  2.000 s\n");
}

TEST(TextLayout, WordsLongerThanAColumnAreCutAtASign) {
  const std::vector<std::vector<std::string>> rows = {{"name", "figure"}, {"overlap:grad+param+p2p", "12345678"}};
  EXPECT_EQ(lay_out(table(rows, {}, ""), 28),  // 8 + 2 for the figure leave 18
            "name                  figure\n"
            "overlap:grad+       12345678\n"
            "  param+p2p\n");
}

TEST(TextLayout, SentencesBreakBelowTheirFirstWord) {
  const std::string line = "  confidence    between one and two seconds\n";
  EXPECT_EQ(lay_out(line, 0), line);
  EXPECT_EQ(lay_out(line, 34), "  confidence    between one and\n                two seconds\n");
  const std::string sentence = base::cat("  - ", wrap("one two three four five", 14, "    "), "\n");
  EXPECT_EQ(lay_out(sentence, 0), "  - one two three\n    four five\n");
  EXPECT_EQ(lay_out(sentence, 80), "  - one two three four five\n");
  EXPECT_EQ(lay_out(sentence, 12), "  - one two\n    three\n    four\n    five\n");
}

TEST(TextLayout, ABarWithoutRoomIsLeftOut) {
  EXPECT_EQ(lay_out("  compute  98 %  ██████\n", 23), "  compute  98 %  ██████\n");
  EXPECT_EQ(lay_out("  compute  98 %  ██████\n", 22), "  compute  98 %\n");
}

TEST(TextLayout, AWordLongerThanTheTerminalStaysWhole) {
  EXPECT_EQ(lay_out("wrote /a/long/path/to/plan.json\n", 12), "wrote\n  /a/long/path/to/plan.json\n");
}

TEST(TextLayout, NoTableIsWiderThanItsTerminal) {
  std::vector<std::vector<std::string>> rows{{"source of these runs", "predicted", "accuracy", "fits right", "configuration"}};
  for (int i = 0; i < 4; ++i)
    rows.push_back({"a name of " + std::string(static_cast<std::size_t>(7 * i), 'x') + " some length", "1,234", "97.2 %",
                    "100.0 %", "TP8·SP CP1 PP16(v2) DP128 ZeRO-1 mb1 interleaved selective-recompute"});
  for (std::size_t width = 40; width <= 160; ++width)
    EXPECT_LE(widest_line(lay_out(table(rows, {4}), width)), width) << lay_out(table(rows, {4}), width);
}

}  // namespace
}  // namespace espalier::report
