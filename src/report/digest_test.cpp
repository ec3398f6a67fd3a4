// SPDX-License-Identifier: Apache-2.0
// Checks that {"b": 1, "a": [2.0, 0.5]} is written {"a":[2,0.5],"b":1}, whose xxh64 is its digest. Order, spaces,
// `timing` and the digest itself change nothing.
#include "report/digest.h"

#include <gtest/gtest.h>

namespace espalier::report {
namespace {

std::string digest(const std::string& json) { return digest_of(base::read_json(json, "test")->root); }

TEST(Digest, IsTheHashOfTheCanonicalText) {
  EXPECT_EQ(digest(R"({"b": 1, "a": [2.0, 0.5]})"), base::content_hash(R"({"a":[2,0.5],"b":1})"));
  EXPECT_EQ(digest(R"({"b": {}, "a": []})"), base::content_hash(R"({"a":[],"b":{}})"));
  EXPECT_EQ(digest(R"({"n": null, "t": true, "s": "x"})"), base::content_hash(R"({"n":null,"s":"x","t":true})"));
}

TEST(Digest, DependsOnValuesAlone) {
  const std::string same = digest(R"({"a": 0.10, "b": {"x": 1, "y": "z"}})");
  EXPECT_EQ(digest(R"({"b":{"y":"z","x":1.0},"a":0.1,"digest":"0","timing":{"total_s":3}})"), same);
  EXPECT_EQ(digest(R"({"a": 1e-1, "b": {"x": 1, "y": "z"}})"), same);
  EXPECT_NE(digest(R"({"a": 0.10, "b": {"x": 1, "y": "Z"}})"), same);
  EXPECT_NE(digest(R"({"a": 0.10, "b": {"x": 2, "y": "z"}})"), same);
  EXPECT_NE(digest(R"({"a": 0.10, "b": {"x": 1}})"), same);
  EXPECT_NE(digest(R"({"a": 0.10, "b": {"x": 1, "y": "z", "timing": 1}})"), same);
}

TEST(Digest, IsNamedWhereItIsWrongOrMissing) {
  const std::string written = sealed([](const std::string& d) {
    base::JsonWriter w;
    w.begin_object();
    w.key("a").value(1);
    write_digest(w, d);
    w.end_object();
    return w.text();
  });
  base::Node root = base::read_json(written, "test")->root;
  EXPECT_TRUE(check_digest(root, {}).ok);
  EXPECT_EQ(check_digest(root, {"a"}).text, "as written; nothing else verifies a");
  root.members.front().second.integer = 2;
  EXPECT_FALSE(check_digest(root, {}).ok);
  EXPECT_FALSE(check_digest(base::read_json("{}", "test")->root, {}).ok);
}

}  // namespace
}  // namespace espalier::report
