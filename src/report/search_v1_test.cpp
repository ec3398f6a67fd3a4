// SPDX-License-Identifier: Apache-2.0
// Reads stored documents of espalier.result/1. Everything that they state about phases comes back as counters.
#include "report/search_v1.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "data/source_dir.h"
#include "espalier/planner.h"

namespace espalier::report::search_v1_test {
namespace {

using testing::HasSubstr;

std::string stored(const std::string& name) {
  const auto text = base::read_file(ESPALIER_SOURCE_DIR "/tests/golden/result_v1_" + name + ".json");
  return text ? *text : "";
}

std::string read_error(std::string text, const std::string& part, const std::string& with) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "no " + part;
  const auto read = result_from_json(text.replace(at, part.size(), with), "result.json");
  return read ? "" : read.error().message();
}

TEST(SearchV1, LayersAndOperatorsBecomeCounters) {
  const auto read = result_from_json(stored("full"), "full");
  ASSERT_TRUE(read) << read.error().message();
  const SearchSummary& s = read->search;
  ASSERT_EQ(s.phases.size(), 4U);
  const PhaseSummary &uniform = s.phases[0], &layers = s.phases[1], &operators = s.phases[2], &both = s.phases[3];
  EXPECT_EQ(uniform.counters,
            (SearchCounters{{SearchCounter::bounded, 300}, {SearchCounter::lowered, 86}, {SearchCounter::simulated, 134}}));
  EXPECT_EQ(uniform.best_ns, 172'616'766);
  EXPECT_EQ(layers.best_ns, 163'278'121);
  EXPECT_EQ(operators.counters, (SearchCounters{{SearchCounter::bounded, 280},
                                                {SearchCounter::lowered, 1},
                                                {SearchCounter::simulated, 134},
                                                {SearchCounter::tensor_groups, 4},
                                                {SearchCounter::operator_searches, 4},
                                                {SearchCounter::inexact_searches, 0},
                                                {SearchCounter::partitions, 0}}));
  EXPECT_EQ(both.counters, (SearchCounters{{SearchCounter::bounded, 4},
                                           {SearchCounter::lowered, 0},
                                           {SearchCounter::simulated, 0},
                                           {SearchCounter::strategies, 522},
                                           {SearchCounter::kept, 234},
                                           {SearchCounter::choices, 5},
                                           {SearchCounter::refinement_tried, 679},
                                           {SearchCounter::refinement_left, 0}}));
  EXPECT_EQ(both.partition_bound_ns, 90'127'254);
  EXPECT_EQ(best_uniform_ns(s), 172'616'766);
  EXPECT_EQ(best_without_partitions_ns(s), 163'278'121);
  ASSERT_EQ(s.balance.size(), 6U);
  EXPECT_EQ(s.balance[4].name, "exact");
  EXPECT_EQ(s.balance[4].first, (std::vector<std::int32_t>{0, 10}));
  EXPECT_EQ(s.balance[4].iteration_ns, 165'121'218);
}

TEST(SearchV1, NodeGroupsBecomeCounters) {
  const auto read = result_from_json(stored("groups"), "groups");
  ASSERT_TRUE(read) << read.error().message();
  const SearchSummary& s = read->search;
  ASSERT_EQ(s.phases.size(), 5U);
  EXPECT_TRUE(covers_groups(s));
  EXPECT_EQ(s.count(SearchCounter::configurations, {kEachGroupPhase}), 10'736);
  EXPECT_EQ(s.phases[1].counters, (SearchCounters{{SearchCounter::bounded, 46},
                                                  {SearchCounter::lowered, 28},
                                                  {SearchCounter::simulated, 28},
                                                  {SearchCounter::out_of_memory, 0},
                                                  {SearchCounter::batch_sizes, 6},
                                                  {SearchCounter::options, 228},
                                                  {SearchCounter::dropped, 0},
                                                  {SearchCounter::candidates, 73},
                                                  {SearchCounter::refined, 6}}));
  EXPECT_EQ(s.count(SearchCounter::pipelines, {kPipelinesPhase}), 10);
  EXPECT_EQ(s.best_ns({kPipelinesPhase}), 0);
  EXPECT_EQ(s.best_ns({kReplicasPhase}), read->prediction.iteration_ns);
}

// A document of version 1 is written in version 2, and reads the same again.
TEST(SearchV1, WrittenAgainInVersionTwo) {
  for (const char* name : {"full", "groups"}) {
    const auto read = result_from_json(stored(name), name);
    ASSERT_TRUE(read) << read.error().message();
    const std::string text = to_json(*read, false);
    EXPECT_THAT(text, HasSubstr("\"schema\": \"espalier.result/2\""));
    const auto again = result_from_json(text, name);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(to_json(*again, false), text);
    EXPECT_EQ(again->brief(), read->brief());
  }
}

TEST(SearchV1, UnknownKeysAreRefusedInBothVersions) {
  EXPECT_THAT(read_error(stored("full"), "\"outer\"", "\"inner\""), HasSubstr("inner"));
  EXPECT_THAT(read_error(stored("groups"), "\"columns\"", "\"rows\""), HasSubstr("rows"));
  const std::string two = to_json(*result_from_json(stored("full"), "full"), false);
  EXPECT_THAT(read_error(two, "\"refinement_tried\"", "\"refinement_tired\""), HasSubstr("did you mean \"refinement_tried\"?"));
  EXPECT_THAT(read_error(two, "\"kept\": 234", "\"kept\": -1"), HasSubstr("kept"));
  EXPECT_THAT(read_error(two, "espalier.result/2", "espalier.result/3"), HasSubstr("espalier.result/2 or espalier.result/1"));
}

}  // namespace
}  // namespace espalier::report::search_v1_test
