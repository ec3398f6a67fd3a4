// SPDX-License-Identifier: Apache-2.0
#include "espalier/measured_step.h"

#include <gtest/gtest.h>

namespace espalier::profile {
namespace {

MeasuredStep two_ranks() {
  MeasuredStep step;
  step.plan = "0123456789abcdef";
  step.step = 3;
  step.steps = 5;
  step.ranks.push_back(
      {0, 0, 100, 0, {{10, 40, 20, 5, 10}, {50, 90, 0, 0, 0}}, {{1, 2, OperatorPass::weight_gradient, false, 4, 17}}});
  step.ranks.push_back({1, -3, 97, 2, {{10, 40, 30, 0, 0}}, {{1, 2, OperatorPass::forward, true, 4, 30}}});
  return step;
}

/// Returns the error of a text; empty where it is accepted.
std::string refusal(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  text.replace(at, part.size(), by);
  const auto read = read_measured_step(text, "t.json");
  return read ? "" : read.error().message();
}

TEST(MeasuredStep, WhatIsWrittenIsRead) {
  const auto read = read_measured_step(to_json(two_ranks()), "t.json");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, two_ranks());
  EXPECT_EQ(read->iteration_ns(), 100);
}

TEST(MeasuredStep, WhatContradictsItselfIsRefusedWithItsPlace) {
  const std::string text = to_json(two_ranks());
  EXPECT_NE(refusal(text, "measured-step/1", "measured-step/2").find("schema"), std::string::npos);
  EXPECT_NE(refusal(text, "10, 40, 20, 5, 10", "10, 40, 20, 5").find("9 numbers"), std::string::npos);
  EXPECT_NE(refusal(text, "10, 40, 20, 5, 10", "10, 9, 20, 5, 10").find("from 10 to 9"), std::string::npos);
  EXPECT_NE(refusal(text, "10, 40, 20, 5, 10", "10, 40, 20, 11, 10").find("parts that fit"), std::string::npos);
  EXPECT_NE(refusal(text, "1, 2, 2, 0, 4, 17", "1, 2, 3, 0, 4, 17").find("0 to 2"), std::string::npos);
  EXPECT_NE(refusal(text, "\"end_ns\": 97", "\"end_ns\": -4").find("start_ns"), std::string::npos);
  EXPECT_FALSE(refusal(text, "\"ranks\"", "\"rank\"").empty());
}

}  // namespace
}  // namespace espalier::profile
