// SPDX-License-Identifier: Apache-2.0
#include "runs/record_dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dictionary_records_yaml.h"
#include "runs/remarks.h"

namespace espalier::runs::record_dictionary_test {
namespace {

using testing::HasSubstr;

/// Returns the error of the shipped dictionary with one replacement; "" where it is still read.
std::string fault(const std::string& from, const std::string& to) {
  std::string text(embedded::dictionary_records_yaml);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  const auto read = read_record_dictionary(text.replace(at, from.size(), to), "records.yaml");
  return read ? "" : read.error().message();
}

TEST(RecordDictionary, TheShippedOneNamesTechniquesAndOptionsAlone) {
  const RecordDictionary& d = record_dictionary();
  std::vector<std::string> names;
  for (const auto& row : d.techniques) names.push_back(row.technique);
  for (const auto& row : d.switches) names.push_back(row.technique);
  EXPECT_EQ(listed_techniques(names).unknown, "");
  EXPECT_EQ(d.assumed.back().framework, "");
}

TEST(RecordDictionary, AFaultNamesItsRow) {
  EXPECT_THAT(fault("is: [true]", "equals: [true]"), HasSubstr("$.switches[0].when[0]"));
  EXPECT_THAT(fault("is: [true]", "is: [true], above: 0"), HasSubstr("one of is, holds and above"));
  EXPECT_THAT(fault("is: [true]", "is: true"), HasSubstr("a list of values"));
  EXPECT_THAT(fault("words: [hsdp]", "words: []"), HasSubstr("a list of"));
  EXPECT_THAT(fault("words: [hsdp]", "words: [1]"), HasSubstr("a list of words"));
  EXPECT_THAT(fault("rank: 8", "rank: 0"), HasSubstr("$.assumed[0].rank"));
  EXPECT_THAT(fault("kind: reserved", "kind: held"), HasSubstr("$.memory.kinds[1].kind"));
  EXPECT_THAT(fault("base: nf4", "base: int4"), HasSubstr("$.frozen.types[0].base"));
  EXPECT_THAT(fault("record-dictionary/1", "record-dictionary/2"), HasSubstr("$.schema"));
  EXPECT_THAT(fault("digits: 2", "numbers: 2"), HasSubstr("numbers"));
  EXPECT_EQ(fault("digits: 2", "digits: 4"), "");
}

}  // namespace
}  // namespace espalier::runs::record_dictionary_test
