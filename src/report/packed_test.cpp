// SPDX-License-Identifier: Apache-2.0
#include "report/packed.h"

#include <gtest/gtest.h>

#include <limits>

namespace espalier::report {
namespace {

// 300 = 2·128 + 44 is written as the low seven bits with the high bit set, 0xac, then 2.
TEST(Packed, SevenBitsAByteTheLowestFirst) {
  Packed packed;
  packed.add(0);
  packed.add(127);
  packed.add(128);
  packed.add(300);
  EXPECT_EQ(packed.bytes(), std::string("\x00\x7f\x80\x01\xac\x02", 6));
}

TEST(Packed, SignsAlternate) {
  Packed packed;
  for (const std::int64_t value : {0, -1, 1, -2, 2, -64, 64}) packed.add_signed(value);
  EXPECT_EQ(packed.bytes(), std::string("\x00\x01\x02\x03\x04\x7f\x80\x01", 8));
}

TEST(Packed, MomentsOfALongStepKeepEveryNanosecond) {
  Packed packed;
  packed.add(1'000'000'000'001);  // a thousand seconds and a nanosecond: six groups of seven bits
  ASSERT_EQ(packed.bytes().size(), 6u);
  std::int64_t value = 0;
  for (std::size_t i = 0; i < 6; ++i) value |= static_cast<std::int64_t>(packed.bytes()[i] & 0x7f) << (7 * i);
  EXPECT_EQ(value, 1'000'000'000'001);
}

TEST(Packed, WhatItCannotHoldIsABug) {
  Packed packed;
  EXPECT_ANY_THROW(packed.add(-1));
  EXPECT_ANY_THROW(packed.add_signed(std::numeric_limits<std::int64_t>::max()));
}

// These are the examples of RFC 4648, section 10.
TEST(Packed, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Packed, EqualColumnsAreEqualTexts) {
  Packed a, b;
  for (std::int64_t i = 0; i < 1000; ++i) {
    a.add(i % 7);
    b.add(i % 7);
  }
  EXPECT_EQ(a.base64(), b.base64());
  EXPECT_LT(a.base64().size(), 200u);
}

}  // namespace
}  // namespace espalier::report
