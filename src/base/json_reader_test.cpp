// SPDX-License-Identifier: Apache-2.0
// Tests strict JSON: values with places, rejections with places and hints, and limits. A written tree reads back as
// an equal tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/document.h"

namespace espalier::base::json_reader_test {
namespace {

using ::testing::HasSubstr;

// In the smallest example the value 7 is at line 2, column 5 (after the three bytes of "a" with quotes, and a colon).
TEST(ReadJson, ValuesKnowTheirPlace) {
  const auto document = read_json("{\n\"a\":7,  \"b\": [true, null]}", "f.json");
  ASSERT_TRUE(document.ok());
  const Node* a = document->root.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->kind, NodeKind::integer);
  EXPECT_EQ(a->integer, 7);
  EXPECT_EQ(a->line, 2);
  EXPECT_EQ(a->column, 5);
  const Node* b = document->root.find("b");
  ASSERT_EQ(b->items.size(), 2u);
  EXPECT_EQ(b->column, 14);
  EXPECT_EQ(b->items[1].kind, NodeKind::null);
  EXPECT_EQ(b->items[1].column, 21);
}

TEST(ReadJson, StringsDoNotConfuseThePlaces) {
  const auto document = read_json(R"({"k\"]}": "a,\\", "z": 1})", "f");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->root.members[0].second.text, "a,\\");
  EXPECT_EQ(document->root.find("z")->column, 24);
}

struct Refusal {
  std::string text, where, found, hint;
};

class RefusedJson : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedJson, SaysWhereWhatAndHow) {
  const auto document = read_json(GetParam().text, "f");
  ASSERT_FALSE(document.ok());
  EXPECT_EQ(document.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(document.error().where, GetParam().where);
  EXPECT_THAT(document.error().found, HasSubstr(GetParam().found));
  EXPECT_THAT(document.error().hint, HasSubstr(GetParam().hint));
  EXPECT_FALSE(document.error().expected.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedJson,
    ::testing::Values(
        Refusal{"", "f:1:1", "empty", "completely"}, Refusal{"  \n ", "f:1:1", "empty", ""},
        Refusal{R"({"a": 1, "b": 2, "a": 3})", "f:1:18", "\"a\" a second time", "first in line 1"},
        Refusal{"{\"a\":\n NaN}", "f:2:2", "NaN", "no NaN"}, Refusal{"[-Infinity]", "f:1:2", "-Infinity", "no NaN"},
        Refusal{"[1e999]", "f:1:2", "1e999", "exponent"}, Refusal{"[1e-999]", "f:1:2", "1e-999", "exponent"},
        Refusal{"{\"a\":1,}", "f:1:8", "}", "remove the comma"}, Refusal{"{'a':1}", "f:1:2", "'", "double quotes"},
        Refusal{"[1 2]", "f:1:4", "2", "comma missing"}, Refusal{"{\"a\": [1,", "f:1:10", "end of the file", "ends too early"},
        Refusal{"[\"abc", "f:1:2", "without closing quote", "closing quote"},
        Refusal{"[\"a\tb\"]", "f:1:4", "tab inside", "quote"}, Refusal{"[\"a\\q\"]", "f:1:5", "escape", "backslash"},
        Refusal{"{} {}", "f:1:4", "{", ""}, Refusal{"{} // x", "f:1:4", "/", "no comments"},
        Refusal{"[True]", "f:1:2", "True", "true, false and null"}, Refusal{"[\"\xC3\x28\"]", "f:1:3", "not UTF-8", "UTF-8"},
        Refusal{"[\"\xED\xA0\x80\"]", "f:1:3", "not UTF-8", "UTF-8"},
        Refusal{std::string("{}\0x", 4), "f:1:3", "0x00", "text file"}, Refusal{"[01]", "f:1:2", "01", "leading zero"},
        Refusal{"[1abc]", "f:1:2", "1abc", "quotes"}, Refusal{"[1.]", "f:1:2", "1.", ""}));

TEST(ReadJson, NestingStopsAtTheLimitHoweverDeepTheText) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(read_json(nested(64), "f").ok());
  const auto refused = read_json(nested(1'000'000), "f");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "f:1:65");
}

TEST(ReadJson, LimitsAreKept) {
  Limits limits;
  limits.max_nodes = 3;
  EXPECT_TRUE(read_json("[1,2]", "f", limits).ok());
  EXPECT_FALSE(read_json("[1,2,3]", "f", limits).ok());
  limits = {};
  limits.max_scalar_bytes = 3;
  EXPECT_TRUE(read_json("[\"abc\"]", "f", limits).ok());
  EXPECT_FALSE(read_json("[\"abcd\"]", "f", limits).ok());
  EXPECT_FALSE(read_json("{\"abcd\":1}", "f", limits).ok());
  limits = {};
  limits.max_bytes = 4;
  EXPECT_FALSE(read_json("[1,2]", "f", limits).ok());
}

TEST(ReadJson, NumbersKeepTheirKind) {
  const auto document = read_json("[9223372036854775807, 9223372036854775808, -9223372036854775808, 1.0, 1e3, -0]", "f");
  ASSERT_TRUE(document.ok());
  const auto& items = document->root.items;
  EXPECT_EQ(items[0].integer, INT64_MAX);
  EXPECT_EQ(items[1].kind, NodeKind::real);  // beyond 64 bits
  EXPECT_EQ(items[1].text, "9223372036854775808");
  EXPECT_EQ(items[2].integer, INT64_MIN);
  EXPECT_EQ(items[3].kind, NodeKind::real);
  EXPECT_EQ(items[4].kind, NodeKind::real);
  EXPECT_EQ(items[5].kind, NodeKind::integer);
}

TEST(ReadJson, ByteOrderMarkIsPassedOver) {
  const auto document = read_json("\xEF\xBB\xBF{\"a\": 1}", "f");
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->root.find("a")->column, 7);
}

bool equal(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.boolean != b.boolean || a.integer != b.integer || a.real != b.real) return false;
  if (a.kind == NodeKind::string && a.text != b.text) return false;
  if (a.items.size() != b.items.size() || a.members.size() != b.members.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i])) return false;
  }
  for (std::size_t i = 0; i < a.members.size(); ++i) {
    if (a.members[i].first != b.members[i].first || !equal(a.members[i].second, b.members[i].second)) return false;
  }
  return true;
}

Node arbitrary_node(int depth) {
  Node node;
  switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
    case 0: break;
    case 1:
      node.kind = NodeKind::boolean;
      node.boolean = *rc::gen::arbitrary<bool>();
      break;
    case 2:
      node.kind = NodeKind::integer;
      node.integer = *rc::gen::arbitrary<std::int64_t>();
      node.real = static_cast<double>(node.integer);
      break;
    case 3:
      node.kind = NodeKind::real;
      node.real = *rc::gen::arbitrary<double>();
      break;
    case 4:
      node.kind = NodeKind::string;
      node.text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
      break;
    case 5:
      node.kind = NodeKind::sequence;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) node.items.push_back(arbitrary_node(depth - 1));
      break;
    default:
      node.kind = NodeKind::mapping;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
        node.members.emplace_back("k\"" + std::to_string(i) + *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)),
                                  arbitrary_node(depth - 1));
      }
  }
  return node;
}

RC_GTEST_PROP(ReadJson, ReadsBackWhatToJsonWrote, ()) {
  const Node node = arbitrary_node(4);
  const std::string text = to_json(node);
  const auto json = read_json(text, "f");
  RC_ASSERT(json.ok());
  RC_ASSERT(equal(node, json->root));
  RC_ASSERT(to_json(json->root) == text);
}

// For any bytes the reader returns; a text that it accepts can be written and read again.
RC_GTEST_PROP(ReadJson, SurvivesBrokenText, (const std::string& noise)) {
  std::string text = to_json(arbitrary_node(3));
  const auto cut = static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(text.size()) + 1));
  text.insert(cut, noise);
  for (const auto& document : {read_json(text, "f"), read_yaml(text, "f")}) {
    if (!document.ok()) {
      RC_ASSERT(!document.error().where.empty() && !document.error().found.empty() && !document.error().hint.empty());
    } else {
      RC_ASSERT(read_json(to_json(document->root), "f").ok());
    }
  }
}

}  // namespace
}  // namespace espalier::base::json_reader_test
