// SPDX-License-Identifier: Apache-2.0
// Tests the JSON writer's layout, number forms and misuse checks, error messages, and the content hash
// against published vectors.
#include <gtest/gtest.h>

#include <limits>

#include "base/document.h"
#include "base/invariant.h"

namespace espalier::base {
namespace {

TEST(JsonWriter, IndentsAndKeepsCompactPartsOnOneLine) {
  JsonWriter writer;
  writer.begin_object()
      .key("a")
      .value(1)
      .key("list")
      .compact_next()
      .begin_array()
      .value(0.5)
      .begin_array()
      .value(true)
      .end_array();
  writer.end_array().key("empty").begin_object().end_object().key("t").seconds(5120000000).end_object();
  EXPECT_EQ(writer.text(), "{\n  \"a\": 1,\n  \"list\": [0.5, [true]],\n  \"empty\": {},\n  \"t\": 5.120000000\n}");
}

TEST(JsonWriter, OneLineWithoutIndent) {
  JsonWriter writer(0);
  writer.begin_array().value("a\"\n\x01").null().raw("{}").end_array();
  EXPECT_EQ(writer.text(), "[\"a\\\"\\n\\u0001\", null, {}]");
}

TEST(JsonWriter, NumbersReadBackAsTheSame) {
  JsonWriter writer(0);
  writer.begin_array().value(5.0).value(0.1).value(1e22).value(-0.0).value(5e-324).value(std::int64_t{INT64_MIN}).end_array();
  EXPECT_EQ(writer.text(), "[5.0, 0.1, 1e+22, -0.0, 5e-324, -9223372036854775808]");
}

TEST(JsonWriter, Seconds) {
  JsonWriter writer(0);
  writer.begin_array().seconds(0).seconds(1).seconds(-1'500'000'000).seconds(INT64_MIN).end_array();
  EXPECT_EQ(writer.text(), "[0.000000000, 0.000000001, -1.500000000, -9223372036.854775808]");
}

TEST(JsonWriter, BadUtf8BecomesReplacementCharacters) {
  JsonWriter writer(0);
  writer.value("\xC3\xA4\xFF");
  EXPECT_EQ(writer.text(), "\"\xC3\xA4\xEF\xBF\xBD\"");
  EXPECT_TRUE(read_json(writer.text(), "f").ok());
}

TEST(JsonWriter, MisuseIsABug) {
  EXPECT_THROW(JsonWriter().key("a"), InternalError);
  EXPECT_THROW(JsonWriter().begin_object().value(1), InternalError);
  EXPECT_THROW(JsonWriter().begin_object().end_array(), InternalError);
  EXPECT_THROW(JsonWriter().value(1).value(2), InternalError);
  EXPECT_THROW(JsonWriter().value(std::numeric_limits<double>::infinity()), InternalError);
}

TEST(ErrorMessage, LeavesEmptyPartsOut) {
  EXPECT_EQ((Error{ErrorKind::bad_input, "f:1:2", "x", "y", "z"}).message(), "f:1:2: found x; expected y; hint: z");
  EXPECT_EQ((Error{ErrorKind::bad_input, "f:1:2", "", "y", ""}).message(), "f:1:2: expected y");
  EXPECT_EQ((Error{ErrorKind::usage, "", "x", "", "z"}).message(), "found x; hint: z");
  EXPECT_EQ((Error{ErrorKind::usage, "w", "", "", "z"}).message(), "w: hint: z");
}

// The expected values come from the reference tool: `printf TEXT | xxhsum -H64`.
TEST(ContentHash, IsXxh64) {
  EXPECT_EQ(content_hash(""), "ef46db3751d8e999");
  EXPECT_EQ(content_hash("a"), "d24ec4f1a98c6e5b");
  EXPECT_EQ(content_hash("abc"), "44bc2cf5ad770999");
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i * 37 + 1);
  const std::vector<std::pair<std::size_t, std::string>> expected = {
      {1, "8a4127811b21e730"},  {3, "706ba42a2c9708b5"},  {4, "ab7017c45b9d7f8e"},  {8, "cf1a70c2b59d51c7"},
      {31, "1a64d6e3a15b1857"}, {32, "9e097eeb3867c631"}, {33, "38c61181c1b3c4dc"}, {39, "7f26229520b00367"},
      {63, "581606fe115679c2"}, {64, "065ad9878895d4ea"}, {71, "a235ea7af31175a8"}, {100, "522912ccf04e3d43"}};
  for (const auto& [length, hash] : expected) EXPECT_EQ(content_hash(std::string_view(bytes).substr(0, length)), hash) << length;
}

}  // namespace
}  // namespace espalier::base
