// SPDX-License-Identifier: Apache-2.0
// Tests TOML as a tree: values with their places, and the texts that are rejected before toml++ receives them.
#include "base/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::base {
namespace {

using ::testing::HasSubstr;

std::string json_of(const std::string& text) {
  const auto document = read_toml(text, "f");
  return document.ok() ? to_json(document->root) : document.error().message();
}

TEST(ReadToml, TablesAndTheirPlaces) {
  const auto document = read_toml("[training]\nsteps = 10  # in all\nname = 'a'\n", "f");
  ASSERT_TRUE(document.ok());
  const Node* steps = document->root.find("training")->find("steps");
  ASSERT_NE(steps, nullptr);
  EXPECT_EQ(steps->integer, 10);
  EXPECT_EQ(steps->line, 2);
  EXPECT_THAT(json_of("[training\n"), HasSubstr("f:1"));
  EXPECT_THAT(json_of("[\n"), HasSubstr("f:1"));
}

// The fuzzer found this: toml++ 3.3 runs past its own code at such a letter.
TEST(ReadToml, LettersBeyondAsciiStandInQuotesAndComments) {
  EXPECT_THAT(json_of("a = 1\ncl\u00e9 = 2\n"), HasSubstr("f:2"));
  EXPECT_THAT(json_of("a = 1 \u00e9\n"), HasSubstr("a letter beyond ASCII outside quotes and comments"));
  EXPECT_EQ(json_of("a = \"\"\"x\\\n \u00e9\"\"\"\n"), "{\"a\": \"x\u00e9\"}");
  EXPECT_EQ(json_of("Q51 = 'Q\u00e9Qc3'  # \u00e9 Q\n\"\\u00e9Q\" = \"\u00e9\"\n"),
            "{\"Q51\": \"Q\u00e9Qc3\", \"\u00e9Q\": \"\u00e9\"}");
  EXPECT_THAT(json_of("a = -b'l\xEF\xBB\x9F'\n"), HasSubstr("f:1"));
  EXPECT_TRUE(read_toml("\xEF\xBB\xBF'a' = {b=['c','d'], e.'f'=\"g\"}\n", "f").ok());
  for (const char* text :
       {"a = \"\u00e9\"  # \u00fc\n", "\"cl\u00e9\" = 1\n", "a = '\u00e9'\n", "a = \'\'\'\n\u00e9 ' '' \'\'\'\n",
        "\xEF\xBB\xBF"
        "a = 1\n",
        "a = \"\\\"\u00e9\"\n", "a = \"\"\nb = \"\u00e9\"\n", "a = \"\"\"x\"\"\"\"\nb = \"\u00e9\"\n"})
    EXPECT_TRUE(read_toml(text, "f").ok()) << text << json_of(text);
}

}  // namespace
}  // namespace espalier::base
