// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier::base {
namespace {

TEST(Format, PiecesAndWords) {
  EXPECT_EQ(cat("tp ", 6, " does not divide ", std::string("32")), "tp 6 does not divide 32");
  EXPECT_EQ(joined(std::vector<std::string>{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(joined(std::vector<const char*>{"a", "b"}, " or "), "a or b");
  EXPECT_EQ(joined(std::vector<std::string>{}), "");
  EXPECT_EQ(lower("H100 SXM5"), "h100 sxm5");
}

// Times of 120 s and more lose their milliseconds; 1.5·10^9 ns are 1.500 s; 2^30 · 1.5 bytes are 1.5 GiB.
TEST(Format, TimesSizesAndCounts) {
  EXPECT_EQ(seconds(120'040'000'000), "120.0 s");
  EXPECT_EQ(seconds(1'500'000'000), "1.500 s");
  EXPECT_EQ(seconds(2'500'000), "2.5 ms");
  EXPECT_EQ(seconds(900), "0.9 us");
  EXPECT_EQ(gib(1'610'612'736), "1.5 GiB");
  EXPECT_EQ(percent(0.4057), "40.6 %");
  EXPECT_EQ(grouped(-1'234'567), "-1,234,567");
  EXPECT_EQ(count(1e20), "1e+20");
  EXPECT_EQ(short_count(8.03e9), "8.03B");
  EXPECT_EQ(six_digits(1.0 / 3), "0.333333");
}

TEST(Format, WidthCountsCodePoints) {
  EXPECT_EQ(display_width("α…"), 2U);
  EXPECT_EQ(pad_right("α", 3), "α  ");
  EXPECT_EQ(pad_left("12345", 3), "12345");
}

}  // namespace
}  // namespace espalier::base
