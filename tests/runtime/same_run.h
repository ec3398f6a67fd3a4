// SPDX-License-Identifier: Apache-2.0
// Compares two runs of one training: losses of every step, gradients of the first. Also selects the runs that a
// process of the tests needs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/crew.h"

namespace espalier::runtime::testing {

/// Returns true if a --gtest_filter and a shard let a test run.
inline bool wanted(const std::string& name) {
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s)
    for (int t = 0; t < all.GetTestSuite(s)->total_test_count(); ++t) {
      const ::testing::TestInfo& test = *all.GetTestSuite(s)->GetTestInfo(t);
      if (test.should_run() && std::string(test.name()) == name) return true;
    }
  return false;
}

inline double largest(const std::map<std::int64_t, float>& gradients) {
  double most = 0;
  for (const auto& [element, value] : gradients) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

/// Checks that losses are within 1e-5, relatively, and gradients within 1e-5 of the largest of their layer, each
/// counted by one rank.
inline void expect_same_run(const Outcome& expected, const Outcome& found, std::size_t steps) {
  ASSERT_GE(expected.steps.size(), steps) << expected.errors;
  ASSERT_EQ(found.steps.size(), steps) << found.errors;
  for (std::size_t k = 0; k < steps; ++k) EXPECT_NEAR(found.steps[k].loss / expected.steps[k].loss, 1, 1e-5) << "step " << k;
  EXPECT_EQ(found.twice, 0);
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (const auto& [layer, values] : expected.gradients) {
    const auto& own = found.gradients.at(layer);
    ASSERT_EQ(own.size(), values.size()) << "layer " << layer;
    const double bound = 1e-5 * largest(values);
    ASSERT_GT(bound, 0);
    double most = 0;
    for (const auto& [element, value] : values)
      most = std::max(most, std::abs(static_cast<double>(own.at(element)) - static_cast<double>(value)));
    EXPECT_LE(most, bound) << "layer " << layer;
  }
}

}  // namespace espalier::runtime::testing
