// SPDX-License-Identifier: Apache-2.0
#include "job/overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"

namespace espalier::job::overrides_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns the document after one change, as canonical JSON; for a rejected change, its message.
std::string changed(const std::string& yaml, const std::string& change) {
  auto document = base::read_yaml(yaml, "job.yaml");
  const auto parsed = parse_override(change);
  if (!parsed) return parsed.error().message();
  const Status status = apply_override(document->root, *parsed);
  return !status.ok() ? status.error().message() : base::to_json(document->root);
}

TEST(Overrides, PathAndValueAreRead) {
  const auto scalar = parse_override("training.global_batch=128");
  ASSERT_TRUE(scalar);
  EXPECT_THAT(scalar->path, ElementsAre("training", "global_batch"));
  EXPECT_EQ(scalar->value.integer, 128);
  EXPECT_EQ(scalar->text, "training.global_batch=128");
  const auto list = parse_override("search.allow.tp=[1, 2]");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->value.items.size(), 2U);
  const auto equals = parse_override("model.name=a=b");  // only the first '=' separates path and value
  ASSERT_TRUE(equals);
  EXPECT_EQ(equals->value.text, "a=b");
}

TEST(Overrides, WhatIsNoChangeIsAUsageError) {
  for (const char* text : {"", "training", "training.=3", ".a=1", "a..b=1", "=4"}) {
    const auto parsed = parse_override(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::usage) << text;
    EXPECT_THAT(parsed.error().message(), HasSubstr("--set")) << text;
  }
  EXPECT_FALSE(parse_override("a=[1, 2"));
}

TEST(Overrides, ValuesAreReplacedMadeAndTakenAway) {
  EXPECT_EQ(changed("{a: 1}", "a=2"), R"({"a": 2})");
  EXPECT_EQ(changed("{a: 1}", "b.c=2"), R"({"a": 1, "b": {"c": 2}})");
  EXPECT_EQ(changed("{a: {b: 1, c: 2}}", "a.b="), R"({"a": {"c": 2}})");
  EXPECT_EQ(changed("{a: 1}", "b="), R"({"a": 1})");  // the key was absent
  EXPECT_EQ(changed("{a: 1}", "a={x: 1}"), R"({"a": {"x": 1}})");
  EXPECT_EQ(changed("{a: [{n: 1}, {n: 2}]}", "a.1.n=5"), R"({"a": [{"n": 1}, {"n": 5}]})");
}

TEST(Overrides, PathsThatLeadNowhereSayWhere) {
  EXPECT_THAT(changed("{a: [1, 2]}", "a.2=3"), HasSubstr("\"2\" in a list of 2"));
  EXPECT_THAT(changed("{a: [1, 2]}", "a.x=3"), HasSubstr("an index of the list"));
  EXPECT_THAT(changed("{a: 7}", "a.b=3"), HasSubstr("\"b\" below 7"));
}

/// Returns the place of an error at `where` after these changes.
std::string blamed(const std::string& where, const std::vector<std::string>& changes, const std::string& found = "0",
                   const std::string& expected = "an integer") {
  std::vector<Override> overrides;
  for (const std::string& text : changes) overrides.push_back(parse_override(text).value());
  return blame_override(Error{ErrorKind::bad_input, where, found, expected, ""}, overrides).where;
}

TEST(Overrides, AnErrorAboutAnOverrideNamesIt) {
  EXPECT_EQ(blamed("job.yaml:2:3 ($.cluster.nodes)", {"cluster.nodes=0"}), "--set cluster.nodes=0");
  EXPECT_EQ(blamed("c.yaml:1:8 ($.nodes)", {"cluster.nodes=1", "cluster.nodes=0"}), "--set cluster.nodes=0");
  EXPECT_EQ(blamed("job.yaml ($.model):1:64 ($.n_head)", {"model.n_head=5"}), "--set model.n_head=5");
  EXPECT_EQ(blamed("c.yaml:1:8 ($.groups[0].nodes)", {"cluster.groups.0.nodes=0"}), "--set cluster.groups.0.nodes=0");
  EXPECT_EQ(blamed("c.yaml:1:2 ($.groups[0].device)", {"cluster.groups=[{nodes: 1}]"}),
            "--set cluster.groups=[{nodes: 1}] ($.cluster.groups.0.device)");
  EXPECT_EQ(blamed("c.yaml:1:1 ($.intra_node.0)", {"cluster.intra_node.0.latency=3"}, "the unknown key \"0\""),
            "--set cluster.intra_node.0.latency=3");
}

TEST(Overrides, AnErrorElsewhereKeepsItsPlace) {
  EXPECT_EQ(blamed("c.yaml:1:8 ($.nodes)", {"cluster.device=t4"}), "c.yaml:1:8 ($.nodes)");
  EXPECT_EQ(blamed("c.yaml:1:8 ($.nodes)", {"cluster.nodes_more=1"}), "c.yaml:1:8 ($.nodes)");
  EXPECT_EQ(blamed("strategy", {"cluster.nodes=3"}), "strategy");
  EXPECT_EQ(blamed("config.json:1:4 ($.num_key_value_heads)", {"model.num_attention_heads=7"}, "num_key_value_heads = 8",
                   "a divisor of num_attention_heads = 7"),
            "config.json:1:4 ($.num_key_value_heads) with --set model.num_attention_heads=7");
}

// The first element names the file that the root was read from.
TEST(Overrides, DepthSkipsWhatWasWalked) {
  auto document = base::read_yaml("{hidden_size: 8}", "config.json");
  const auto change = parse_override("model.hidden_size=16");
  ASSERT_TRUE(change);
  ASSERT_TRUE(apply_override(document->root, *change, 1).ok());
  EXPECT_EQ(base::to_json(document->root), R"({"hidden_size": 16})");
}

}  // namespace
}  // namespace espalier::job::overrides_test
