// SPDX-License-Identifier: Apache-2.0
// Tests the strict YAML subset: core-schema scalars, places, and every rejection that document.h promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"

namespace espalier::base::yaml_reader_test {
namespace {

using ::testing::HasSubstr;

TEST(ReadYaml, ValuesKnowTheirPlace) {
  const auto document = read_yaml("model: llama\ntraining:\n  global_batch: 64  # sequences\n", "job.yaml");
  ASSERT_TRUE(document.ok());
  const Node* batch = document->root.find("training")->find("global_batch");
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->integer, 64);
  EXPECT_EQ(batch->line, 3);
  EXPECT_EQ(batch->column, 17);
}

// The schema is the YAML 1.2 core schema, not 1.1: `no` is text, 012 is twelve, 12:30 is text, 0o17 and 0x1F are text.
TEST(ReadYaml, CoreSchema) {
  const auto scalar = [](const std::string& text) {
    const auto one = read_yaml("a: " + text, "f");
    EXPECT_TRUE(one.ok()) << text;
    return one.ok() ? to_json(*one->root.find("a")) : std::string("error");
  };
  EXPECT_EQ(scalar("no"), "\"no\"");
  EXPECT_EQ(scalar("on"), "\"on\"");
  EXPECT_EQ(scalar("012"), "12");
  EXPECT_EQ(scalar("12:30"), "\"12:30\"");
  EXPECT_EQ(scalar("0o17"), "\"0o17\"");
  EXPECT_EQ(scalar("0x1F"), "\"0x1F\"");
  EXPECT_EQ(scalar(""), "null");
  EXPECT_EQ(scalar("~"), "null");
  EXPECT_EQ(scalar("'~'"), "\"~\"");
  EXPECT_EQ(scalar("True"), "true");
  EXPECT_EQ(scalar("FALSE"), "false");
  EXPECT_EQ(scalar("tRUE"), "\"tRUE\"");
  EXPECT_EQ(scalar(".5"), "0.5");
  EXPECT_EQ(scalar("-5."), "-5.0");
  EXPECT_EQ(scalar("5.e2"), "500.0");
  EXPECT_EQ(scalar("+3"), "3");
  EXPECT_EQ(scalar("1e3"), "1000.0");
  EXPECT_EQ(scalar("\"5\""), "\"5\"");
  EXPECT_EQ(scalar("1_000"), "\"1_000\"");
  EXPECT_EQ(scalar("."), "\".\"");
  EXPECT_EQ(scalar("1e"), "\"1e\"");
  EXPECT_EQ(scalar("50 GB/s"), "\"50 GB/s\"");
  EXPECT_EQ(scalar("|\n  x\n  y"), "\"x\\ny\"");
}

struct Refusal {
  std::string text, where, found, hint;
};

class RefusedYaml : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedYaml, SaysWhereWhatAndHow) {
  const auto document = read_yaml(GetParam().text, "f");
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(document.error().where, GetParam().where);
  EXPECT_THAT(document.error().found, HasSubstr(GetParam().found));
  EXPECT_THAT(document.error().hint, HasSubstr(GetParam().hint));
  EXPECT_FALSE(document.error().expected.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedYaml,
    ::testing::Values(Refusal{"", "f:1:1", "empty", ""}, Refusal{"# only\n", "f:1:1", "empty", "comments"},
                      Refusal{"a: &x 1", "f:1:4", "anchor", "where it is used"}, Refusal{"a: &x 1\nb: *x", "f:1:4", "anchor", ""},
                      Refusal{"a: *x", "f:1:4", "anchor is not defined", ""}, Refusal{"a: !!int 3", "f:1:4", "tag", "remove"},
                      Refusal{"a: ! 3", "f:1:4", "tag", "remove"}, Refusal{"a: !x [1]", "f:1:4", "tag", "remove"},
                      Refusal{"!x k: 1", "f:1:1", "tag", "remove"}, Refusal{"a: 1\n---\nb: 2", "f:2:1", "after the end", "'---'"},
                      Refusal{"a: 1\nb: 2\na: 3", "f:3:1", "second time", "line 1"}, Refusal{"a: .nan", "f:1:4", ".nan", ""},
                      Refusal{"a: -.inf", "f:1:4", "-.inf", "leave the key out"},
                      Refusal{"a: 1e999", "f:1:4", "1e999", "exponent"},
                      Refusal{"a:\n\tb: 1", "f:2:1", "a tab", "replace each tab"},
                      Refusal{"a: b: c", "f:1:5", "illegal map value", "quotes"},
                      Refusal{"? [1]\n: 2", "f:1:3", "list as a key", "quotes"}, Refusal{": 2", "f:1:1", "empty key", "':'"},
                      Refusal{"{\"a\" 1}", "f:1:6", "1", ""}, Refusal{"{\"a\": 1, \"a\": 2}", "f:1:10", "second time", ""},
                      Refusal{"a: \"b", "f:1:6", "EOF", "closing quote"}, Refusal{"a: \xFF", "f:1:4", "not UTF-8", "UTF-8"}));

TEST(ReadYaml, NestingStopsAtTheLimitHoweverDeepTheText) {
  for (const std::string& level : {std::string("["), std::string("{a: "), std::string("- "), std::string("[{\"a\": ")}) {
    std::string text;
    while (text.size() < 1'000'000) text += level;
    EXPECT_FALSE(read_yaml(text, "f").ok()) << level;
  }
  std::string flow(64, '[');
  EXPECT_TRUE(read_yaml(flow + "x" + std::string(64, ']'), "f").ok());
  const auto refused = read_yaml("a: " + flow + "x" + std::string(64, ']'), "f");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().found, HasSubstr("64 deep"));
}

TEST(ReadYaml, LargeTextMustBeJson) {
  std::string json = "[0";
  while (json.size() < (3u << 20)) json += ",1234567890";
  EXPECT_TRUE(read_yaml(json + "]", "f").ok());
  const auto refused = read_yaml("#\n" + json + "]", "f");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().hint, HasSubstr("JSON"));
}

TEST(ReadYaml, WindowsLineEndsAndByteOrderMark) {
  const auto document = read_yaml(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: x\r\n",
      "f");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(to_json(document->root), R"({"a": 1, "b": "x"})");
  EXPECT_EQ(document->root.find("b")->line, 2);
}

}  // namespace
}  // namespace espalier::base::yaml_reader_test
