// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_profile.h"

#include <gtest/gtest.h>

#include "reference/v1_fixture.h"

namespace espalier::reference {
namespace {

TEST(V1Profile, NotationPutsTheStarAtTheInnerDimension) {
  EXPECT_EQ(to_string(V1Strategy{2, 1, 4, true, false}), "2-1-4f");
  EXPECT_EQ(to_string(V1Strategy{1, 2, 4, false, true}), "1-2*-4");
  EXPECT_EQ(to_string(V1Strategy{2, 2, 4, true, false}), "2-2-4f*");
  EXPECT_EQ(to_string(V1Strategy{1, 8, 1}), "1-8-1");
}

TEST(V1Profile, ReadsEveryPublishedModel) {
  const auto& profiles = published_profiles();
  ASSERT_EQ(profiles.size(), 12u);
  const V1Profile& bert = profiles.at("bert-1280@8");
  EXPECT_EQ(bert.strategies.size(), 22u);
  ASSERT_EQ(bert.layer_types.size(), 1u);
  EXPECT_EQ(bert.layer_types[0].parameter_mb, 76.98);
  EXPECT_EQ(bert.layer_types[0].activation_mb.at(8), 21.61171875);
  EXPECT_EQ(bert.all_reduce.at({2, 2, 0}), 0.224153646);
  EXPECT_EQ(bert.comm_slowdown, 1.3);
  const V1Profile& t5 = profiles.at("t5@16");
  EXPECT_EQ(t5.strategies.size(), 37u);
  ASSERT_EQ(t5.layer_types.size(), 2u);
  EXPECT_FALSE(t5.layer_types[0].decoder);
  EXPECT_TRUE(t5.layer_types[1].decoder);
  EXPECT_EQ(t5.last.states_mb, 630);
  EXPECT_EQ(t5.p2p.at(4), 0.20493514835834503);
  EXPECT_EQ(profiles.at("swin@8").layer_types.size(), 4u);
}

std::string message_of(const std::string& json) {
  const auto read = read_v1_profiles(json, "p.json");
  return read.ok() ? "" : read.error().message();
}

TEST(V1Profile, ErrorsSayWhere) {
  EXPECT_NE(message_of("[]").find("a mapping"), std::string::npos) << message_of("[]");
  EXPECT_NE(message_of(R"({"gpt@8": {}})").find("gpt@8"), std::string::npos);
  EXPECT_NE(message_of(R"({"bert@12": {}})").find("@8 or @16"), std::string::npos);
  const std::string strategies = R"({"bert@8": {"strategies": [[2, 2, 4, {}]], "memory": {}, "time": {}}})";
  EXPECT_NE(message_of(strategies).find("pp*tp*dp = devices"), std::string::npos) << message_of(strategies);
  const std::string missing = R"({"bert@8": {"strategies": [[1, 1, 8, {}]], "memory": {}, "time": {}}})";
  EXPECT_NE(message_of(missing).find("parameter_size"), std::string::npos) << message_of(missing);
}

TEST(V1Profile, EveryGroupNeedsItsCoefficient) {
  std::string json = source_file("data/galvatron/galvatron_v1_profile.json");
  const std::string key = "\"2_2_1\"";
  json.replace(json.find(key), key.size(), "\"2_2_9\"");
  EXPECT_NE(message_of(json).find("no coefficient \"2_2_1\""), std::string::npos) << message_of(json);
}

}  // namespace
}  // namespace espalier::reference
