// SPDX-License-Identifier: Apache-2.0
#include "cli/step_watch.h"

#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

/// How many of the steps were a change.
int changes(StepWatch& watch, std::initializer_list<double> steps) {
  int count = 0;
  for (const double seconds : steps) count += watch.changed(seconds) ? 1 : 0;
  return count;
}

// The first step is not usual; of the next five the median is 1.0. Above 1.2 for three steps in a row is a change,
// once.
TEST(StepWatch, ThreeSlowStepsInARowAreAChange) {
  StepWatch watch(1.2);
  EXPECT_EQ(changes(watch, {9.0, 1.0, 1.1, 0.9, 1.0, 1.05}), 0);
  EXPECT_DOUBLE_EQ(watch.usual_s(), 1.0);
  EXPECT_EQ(changes(watch, {1.3, 1.3, 1.0, 1.3, 1.3}), 0);  // never three
  EXPECT_EQ(changes(watch, {1.3}), 1);
  EXPECT_EQ(changes(watch, {1.3, 1.3}), 0);  // said once
}

TEST(StepWatch, WhatIsAcceptedIsUsualFromThenOn) {
  StepWatch watch(1.2);
  EXPECT_EQ(changes(watch, {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5}), 1);
  watch.accept();
  EXPECT_EQ(changes(watch, {1.5, 1.5, 1.5, 1.5, 1.5, 1.6, 1.6, 1.6}), 0);
  EXPECT_EQ(changes(watch, {2.0, 2.0, 2.0}), 1);
}

}  // namespace
}  // namespace espalier::cli
