// SPDX-License-Identifier: Apache-2.0
#include "planner/replay.h"

#include <gtest/gtest.h>

namespace espalier::planner {
namespace {

ReplayedStep step_of(std::int32_t stages, std::int32_t microbatches) {
  ReplayedStep step;
  step.schedule.stages = stages;
  step.schedule.microbatches = microbatches;
  return step;
}

// Two stages and two micro-batches with all passes 10 and 20 take (m + p − 1) · 30 = 90, and the update takes 7.
TEST(Replay, EqualPassesAreTheBubbleFormula) {
  ReplayedStep step = step_of(2, 2);
  step.passes = {{{10, 20}}, {{10, 20}}};
  step.update_ns = 7;
  EXPECT_EQ(*replay(step), 97);
}

// The second replica's stage 0 takes twice the time. Its stage 0 runs F0 0–20, F1 20–40; stage 1 runs F0 20–30, B0
// 30–50, F1 50–60, B1 60–80; then stage 0 runs B0 50–90, B1 90–130. The first replica ends at 90 and waits.
TEST(Replay, TheSlowestReplicaEndsTheStep) {
  ReplayedStep step = step_of(2, 2);
  step.passes = {{{10, 20}, {20, 40}}, {{10, 20}, {10, 20}}};
  EXPECT_EQ(*replay(step), 130);
}

TEST(Replay, RefusesWhatDoesNotFit) {
  ReplayedStep step = step_of(2, 2);
  step.passes = {{{10, 20}}};
  EXPECT_FALSE(replay(step));  // one stage of two
  step.passes = {{{10, 20}}, {{10, 20}, {10, 20}}};
  EXPECT_FALSE(replay(step));  // different numbers of replicas
  step.passes = {{{10, 20}}, {{10, 20}}};
  step.schedule.microbatches = 0;
  EXPECT_FALSE(replay(step));
}

}  // namespace
}  // namespace espalier::planner
