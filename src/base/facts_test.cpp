// SPDX-License-Identifier: Apache-2.0
#include "base/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/invariant.h"

namespace espalier::base {
namespace {

using ::testing::HasSubstr;

std::string fact_file(const std::string& rows, const std::string& more = "") {
  return "schema: espalier.facts/1\nfacts:\n  - {name: steps, unit: s, meaning: m, " + more + "rows: [" + rows + "]}\n";
}

std::string fault_of(const std::string& rows, const std::string& more = "") {
  const auto read = read_facts(fact_file(rows, more), "facts.yaml");
  return read.ok() ? "read" : read.error().message();
}

Facts facts(const std::string& rows, const std::string& more = "") {
  return read_facts(fact_file(rows, more), "facts.yaml").value();
}

TEST(Facts, AnEngineHasItsOwnRowsAndElseThoseOfAll) {
  const Facts read =
      facts("{value: 1, source: s}, {value: 2, source: s, engine: a, since: 0.5}, {value: 3, source: s, engine: a, since: 0.9}");
  EXPECT_EQ(read.value("steps"), 1);
  EXPECT_EQ(read.value("steps", {"b", std::nullopt}), 1);
  EXPECT_EQ(read.value("steps", {"a", std::nullopt}), 3);
  EXPECT_EQ(read.value("steps", {"a", Version::parse("0.8")}), 2);
  EXPECT_EQ(read.value("steps", {"a", Version::parse("0.4")}), 1);
  EXPECT_THROW((void)read.value("step"), InternalError);
}

TEST(Facts, VersionsMayBeThoseOfAnotherProgram) {
  const Facts read = facts("{value: 0.6, source: s, until: 1}, {value: 1, source: s, since: 2}", "versions: FlashAttention, ");
  EXPECT_EQ(read.value_at("steps", "1"), 0.6);
  EXPECT_EQ(read.value_at("steps", "3"), 1);
  EXPECT_THROW((void)read.value_at("steps", "three"), InternalError);
  // An engine's version is none of that program.
  EXPECT_THROW((void)read.value("steps"), InternalError);
  EXPECT_THROW((void)read.value("steps", {"a", Version::parse("1")}), InternalError);
  EXPECT_THROW((void)facts("{value: 1, source: s}").value_at("steps", "1"), InternalError);
  EXPECT_THAT(fault_of("{value: 1, source: s}, {value: 2, source: s, engine: a}", "versions: FlashAttention, "),
              HasSubstr("no engine"));
}

TEST(Facts, RefusesWhatItCannotMean) {
  EXPECT_EQ(fault_of("{value: 1, source: s}"), "read");
  EXPECT_THAT(fault_of("{value: 1}"), HasSubstr("source"));
  EXPECT_THAT(fault_of("{value: -1, source: s}"), HasSubstr("value"));
  EXPECT_THAT(fault_of("{value: 1, source: s}, {value: 2, source: s}"), HasSubstr("an era of its own"));
  EXPECT_THAT(fault_of("{value: 1, source: s, engine: a}"), HasSubstr("a row without `engine`"));
  EXPECT_THAT(fault_of("{value: 1, source: s}, {value: 2, source: s, since: 2}"), HasSubstr("`versions` of the fact"));
  EXPECT_THAT(fault_of("{value: 1, source: s, sinse: 2}"), HasSubstr("did you mean \"since\""));
}

// Figures of the equations by hand; data/facts.yaml has their sources.
TEST(Facts, Shipped) {
  EXPECT_EQ(shipped_facts().value("tree_all_reduce"), 0.92);
  EXPECT_EQ(shipped_facts().value("pass_launches", {"megatron-core", Version::parse("0.20")}), 4);
  for (const auto& [name, fact] : shipped_facts().all()) {
    EXPECT_FALSE(fact.unit.empty()) << name;
    for (const auto& [engine, rows] : fact.rows)
      for (const FactRow& row : rows) EXPECT_FALSE(row.source.empty()) << name;
  }
}

}  // namespace
}  // namespace espalier::base
