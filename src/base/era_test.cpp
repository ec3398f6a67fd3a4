// SPDX-License-Identifier: Apache-2.0
#include "base/era.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace espalier::base {
namespace {

using ::testing::HasSubstr;

Version version(std::string_view text) { return Version::parse(text).value(); }

TEST(Version, NumbersAreComparedOneByOne) {
  EXPECT_LT(version("0.9"), version("0.19.2"));
  EXPECT_LT(version("25.02"), version("25.11"));
  EXPECT_LT(version("2023"), version("2024-12"));
  EXPECT_EQ(version("0.17"), version("0.17.0"));
  EXPECT_EQ(version("25.02").text(), "25.02");
  for (const char* wrong : {"", "v1", "1.", ".1", "1..2", "-1", "1.-2", "1.2.3.4.5", "1 2", "99999999999"})
    EXPECT_FALSE(Version::parse(wrong)) << wrong;
}

struct Row {
  char name;
  Era era;
};

std::vector<Row> rows() { return {{'c', {version("0.19"), std::nullopt}}, {'a', {}}, {'b', {version("0.12"), version("0.16")}}}; }

char at(const std::optional<Version>& wanted) {
  const std::vector<Row> all = rows();
  const Row* row = row_at(std::span<const Row>(all), wanted);
  return row == nullptr ? '-' : row->name;
}

// The newest row at or below a version holds. Between the last version of a source and the next row, the row goes on.
TEST(Era, TheNewestRowAtOrBelowAVersionHolds) {
  EXPECT_EQ(at(Version::parse("0.1")), 'a');
  EXPECT_EQ(at(Version::parse("0.12")), 'b');
  EXPECT_EQ(at(Version::parse("0.16")), 'b');
  EXPECT_EQ(at(Version::parse("0.18")), 'b');
  EXPECT_EQ(at(Version::parse("0.19")), 'c');
}

TEST(Era, TheNewestRowHoldsForNewerVersionsAndWithoutOne) {
  EXPECT_EQ(at(Version::parse("7.0")), 'c');
  EXPECT_EQ(at(std::nullopt), 'c');
}

TEST(Era, NoRowHoldsBeforeTheFirst) {
  const std::vector<Row> late = {{'c', {version("0.19"), std::nullopt}}};
  EXPECT_EQ(row_at(std::span<const Row>(late), version("0.18")), nullptr);
  EXPECT_EQ(row_at(std::span<const Row>{}, std::nullopt), nullptr);
}

TEST(Era, RowsOfOneVersionOverlap) {
  const Era any, early{std::nullopt, version("0.11")}, middle{version("0.12"), version("0.16")},
      late{version("0.16"), std::nullopt};
  EXPECT_TRUE(overlap(any, any));
  EXPECT_FALSE(overlap(any, middle));  // the older one ends where the newer begins
  EXPECT_FALSE(overlap(early, middle));
  EXPECT_TRUE(overlap(middle, late));
  EXPECT_TRUE(overlap(late, middle));
}

std::string era_fault(const std::string& yaml) {
  const auto document = read_yaml(yaml, "rows.yaml");
  ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  (void)read_era(r);
  return sink.ok() ? "read" : sink.first().error().message();
}

TEST(Era, IsReadFromNumbersAndWords) {
  EXPECT_EQ(era_fault("{since: 0.19, until: 0.19.2}"), "read");
  EXPECT_EQ(era_fault("{until: 2024-12}"), "read");
  EXPECT_THAT(era_fault("{since: newest}"), HasSubstr("a version, like 0.19.2"));
  EXPECT_THAT(era_fault("{since: 2, until: 1.9}"), HasSubstr("from `since` on"));
}

}  // namespace
}  // namespace espalier::base
