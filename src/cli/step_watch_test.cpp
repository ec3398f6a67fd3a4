// SPDX-License-Identifier: Apache-2.0
#include "cli/step_watch.h"

#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

/// Counts the steps that were a change.
int changes(StepWatch& watch, std::initializer_list<double> steps) {
  int count = 0;
  for (const double seconds : steps) count += watch.changed(seconds) ? 1 : 0;
  return count;
}

// The first step is not usual; the median of the next five is 1.0. Three steps in a row above 1.2 are a change, once.
TEST(StepWatch, ThreeSlowStepsInARowAreAChange) {
  StepWatch watch(1.2);
  EXPECT_EQ(changes(watch, {9.0, 1.0, 1.1, 0.9, 1.0, 1.05}), 0);
  EXPECT_DOUBLE_EQ(watch.usual_s(), 1.0);
  EXPECT_EQ(changes(watch, {1.3, 1.3, 1.0, 1.3, 1.3}), 0);  // never three
  EXPECT_EQ(changes(watch, {1.3}), 1);
  EXPECT_EQ(changes(watch, {1.3, 1.3}), 0);  // reported once
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
